//! Puts a turn together from blocks. The index says which block a piece belongs to; a piece that belongs to none makes
//! sure that no call runs which it may have been meant for.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::block::{Block, Kind};
use super::event::{Counts, Delta, Event, finish, read};
use crate::calls::{CALLS_HELD_MAX, Notes, looks_like_a_call, seal};
use crate::chat::delta::{integer, scalar_text};
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::lower::Names;
use crate::stream::{Assemble, error_text};
use crate::turn::{Finish, Kept, Part, Turn};

/// Blocks that are held of one turn before the reply counts as broken. A text with many sources has many.
const BLOCKS_HELD_MAX: usize = 8 * CALLS_HELD_MAX;

/// Collects events into a turn.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    blocks: Vec<Block>,
    /// The last block of each index.
    latest: HashMap<i64, usize>,
    open: usize,
    calls: usize,
    /// The indexes of pieces of arguments that had no block.
    torn: HashSet<Option<i64>>,
    finish: Option<Finish>,
    is_over: bool,
    counts: Counts,
    notes: Notes,
}

impl Assembler {
    fn read<'a>(&mut self, json: &'a str) -> Result<Event<'a>, WireFault> {
        let event: Event<'a> = serde_json::from_str(json).map_err(|e| WireFault::malformed(e, json))?;
        match event.error {
            Some(error) => Err(WireFault::Server { message: error_text(error) }),
            None => Ok(event),
        }
    }

    /// Takes the content of a message that is whole.
    pub(super) fn take_content(&mut self, content: Option<&RawValue>) -> Result<(), WireFault> {
        let blocks: Vec<&RawValue> = match content {
            Some(text) if text.get().starts_with('"') => {
                self.text.push_str(&scalar_text(Some(text)));
                Vec::new()
            }
            content => read(content),
        };
        for (position, block) in blocks.into_iter().enumerate() {
            let index = place(position);
            self.begin(index, block)?;
            self.end(Some(index));
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Event<'_>) -> Result<(), WireFault> {
        self.take_content(message.content)?;
        self.counts.take(message.usage);
        self.stop(message.stop_reason, message.stop_details);
        Ok(())
    }

    fn begin(&mut self, index: i64, start: &RawValue) -> Result<(), WireFault> {
        let block = Block::new(index, start);
        if block.kind == Kind::Text {
            self.text.push_str(block.text());
        }
        self.calls += usize::from(block.kind == Kind::Call);
        self.open += 1;
        if self.latest.insert(index, self.blocks.len()).is_some() {
            self.notes.add("index_reused");
        }
        self.blocks.push(block);
        if self.calls > CALLS_HELD_MAX {
            return Err(WireFault::TooLarge { limit: CALLS_HELD_MAX, unit: "calls" });
        }
        if self.blocks.len() > BLOCKS_HELD_MAX {
            return Err(WireFault::TooLarge { limit: BLOCKS_HELD_MAX, unit: "blocks" });
        }
        Ok(())
    }

    /// The block of an index that is not over; without an index the only one that is open, where that is the last.
    fn open_block(&mut self, index: Option<i64>) -> Option<&mut Block> {
        let at = match index {
            Some(index) => *self.latest.get(&index)?,
            None => self.blocks.len().checked_sub(1).filter(|_| self.open == 1)?,
        };
        self.blocks.get_mut(at).filter(|block| !block.is_over)
    }

    fn grow(&mut self, index: Option<i64>, delta: &Delta<'_>) -> Result<(), WireFault> {
        let Some(block) = self.open_block(index) else { return self.adopt(index, delta) };
        match block.grow(delta) {
            Ok(text) => self.text.push_str(&text),
            Err(code) => self.notes.add(code),
        }
        Ok(())
    }

    /// Text without a block is text all the same. A piece of arguments without a block may be missing elsewhere.
    fn adopt(&mut self, index: Option<i64>, delta: &Delta<'_>) -> Result<(), WireFault> {
        if scalar_text(delta.r#type) == "text_delta" {
            self.notes.add("orphan_fragment_reattached");
            let index = index.unwrap_or(place(self.blocks.len()));
            let start = RawValue::from_string(r#"{"type":"text","text":""}"#.to_owned());
            self.begin(index, &start.map_err(|e| WireFault::malformed(e, ""))?)?;
            return self.grow(Some(index), delta);
        }
        self.notes.add("orphan_fragment_dropped");
        self.torn.insert(index);
        Ok(())
    }

    fn end(&mut self, index: Option<i64>) {
        if let Some(block) = self.open_block(index) {
            block.is_over = true;
            self.open -= 1;
        }
    }

    fn stop(&mut self, reason: Option<&RawValue>, details: Option<&RawValue>) {
        match scalar_text(reason) {
            word if word.is_empty() => {}
            word => self.finish = Some(Finish::then(self.finish.take(), finish(word.into_owned()))),
        }
        if self.finish == Some(Finish::ContentFilter) {
            self.notes.add("refusal");
            let details: Value = read(details);
            if let (true, Some(why)) = (self.text.trim_ascii().is_empty(), details.get("explanation")) {
                self.text.push_str(why.as_str().unwrap_or_default());
            }
        }
    }

    fn into_turn(mut self, names: &Names) -> Turn {
        let finish = self.finish.take().unwrap_or(if self.calls == 0 { Finish::Stop } else { Finish::ToolCalls });
        // Blocks may come one into the other; the index is their order.
        self.blocks.sort_by_key(|block| block.index);
        let (mut parts, mut drafts, mut hosted) = (Vec::new(), Vec::new(), Vec::new());
        for block in &self.blocks {
            match block.kind {
                Kind::Call => {
                    let is_torn = self.torn.contains(&None) || self.torn.contains(&Some(block.index));
                    parts.push(Part::Call(drafts.len()));
                    drafts.push(block.draft(is_torn));
                    continue;
                }
                Kind::HostedCall => hosted.push(block.hosted_call()),
                Kind::HostedResult => block.settle(&mut hosted),
                Kind::Text | Kind::Thought | Kind::Other => {}
            }
            if block.has_lost() {
                self.notes.add("half_a_surrogate_pair");
            }
            if block.kind == Kind::Text && block.is_plain() {
                parts.push(Part::Text(block.text().to_owned()));
            } else {
                parts.extend(block.raw(&finish).map(Part::Raw));
            }
        }
        let calls = seal(drafts, names, &finish, &mut self.notes);
        if calls.is_empty() && looks_like_a_call(&self.text, names) {
            self.notes.add("text_tool_call_suspected");
        }
        let is_told_otherwise = is_plain(&parts) && calls.iter().all(|call| call.provider_meta.is_none());
        let kept = Kept { dialect: Dialect::Anthropic, response_id: None, parts };
        Turn {
            text: self.text,
            calls,
            kept: (!is_told_otherwise).then(|| Box::new(kept)),
            hosted,
            finish,
            usage: self.counts.usage(),
            diagnostics: self.notes.into_codes(),
            ..Turn::default()
        }
    }
}

/// The index that a block has by its place.
fn place(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

/// Whether text and calls say all that the parts do.
fn is_plain(parts: &[Part]) -> bool {
    let calls = match parts {
        [Part::Text(_), calls @ ..] => calls,
        calls => calls,
    };
    calls.iter().all(|part| matches!(part, Part::Call(_)))
}

impl Assemble for Assembler {
    fn event(&mut self, json: &str) -> Result<(), WireFault> {
        let event = self.read(json)?;
        let index = integer(event.index);
        match scalar_text(event.r#type).as_ref() {
            "message_start" => self.counts.take(read::<Option<Event<'_>>>(event.message).and_then(|said| said.usage)),
            "content_block_start" => match event.content_block {
                Some(start) => self.begin(index.unwrap_or(place(self.blocks.len())), start)?,
                None => self.notes.add("event_ignored"),
            },
            "content_block_delta" => self.grow(index, &read(event.delta))?,
            "content_block_stop" => self.end(index),
            "message_delta" => {
                let delta: Delta<'_> = read(event.delta);
                self.counts.take(event.usage);
                self.stop(delta.stop_reason, delta.stop_details);
            }
            "message_stop" => self.is_over = true,
            "message" => self.take_message(&event)?,
            "error" => return Err(WireFault::Server { message: "no words".to_owned() }),
            "ping" => {}
            _ => self.notes.add("event_ignored"),
        }
        Ok(())
    }

    fn reply(&mut self, json: &str) -> Result<(), WireFault> {
        let message = self.read(json)?;
        if message.content.is_none() {
            return Err(WireFault::malformed("it has no `content`", json));
        }
        self.take_message(&message)
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn is_complete(&self) -> bool {
        self.is_over || self.finish.is_some()
    }

    fn finish(self: Box<Self>, names: &Names) -> Result<Turn, WireFault> {
        Ok(self.into_turn(names))
    }
}
