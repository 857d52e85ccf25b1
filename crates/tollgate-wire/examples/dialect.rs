//! Prints what this crate writes and reads, so that programs of others can be held against it.
//!
//! `dialect body DIALECT` makes the body of a request from an input of the golden files; `turn` and `stream` read a reply,
//! whole and streamed; `reply` writes one from a turn; `request` reads a body and says what it found.

#[path = "../tests/canonical/mod.rs"]
mod canonical;

use std::error::Error;
use std::io::{Read, Write};

use serde_json::json;
use tollgate_wire::{Dialect, Heading, Message, Names, Stream, read_reply, read_request, write_reply};

use canonical::Input;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, dialect] = words.as_slice() else { return Err("say what to do, and the dialect".into()) };
    let known = Dialect::ALL.into_iter().find(|known| known.as_str() == dialect);
    let dialect = known.ok_or_else(|| format!("`{dialect}` is no dialect"))?;
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let output = match what.as_str() {
        "body" => serde_json::from_slice::<Input>(&input)?.body(dialect)?,
        "turn" => serde_json::to_vec(&read_reply(dialect, &input, &Names::default())?)?,
        "stream" => {
            let mut stream = Stream::new(dialect);
            stream.push(&input, &mut |_| {})?;
            serde_json::to_vec(&stream.finish(&Names::default())?)?
        }
        "reply" => {
            let heading = Heading { id: "resp_1", model: "model", created: 1_767_323_045, names: &Names::default() };
            write_reply(dialect, &serde_json::from_slice(&input)?, &heading)?
        }
        "request" => {
            let received = read_request(dialect, &input)?;
            let calls = received.messages.iter().map(|message| match message {
                Message::Assistant { calls, .. } => calls.len(),
                Message::System(_) | Message::User(_) | Message::Tool { .. } => 0,
            });
            let tools: Vec<&str> = received.tools.iter().map(|tool| tool.name.as_str()).collect();
            serde_json::to_vec(&json!({
                "model": received.model,
                "messages": received.messages.len(),
                "calls": calls.sum::<usize>(),
                "tools": tools,
                "rest": received.rest,
            }))?
        }
        other => return Err(format!("`{other}` is nothing to do").into()),
    };
    std::io::stdout().write_all(&output)?;
    Ok(())
}
