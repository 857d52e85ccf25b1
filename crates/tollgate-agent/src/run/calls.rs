//! The calls of one turn, side by side.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_types::{Call, Status};
use tollgate_wire::{Message, ModelCall};

use super::{Agent, Event, refusal};
use crate::record::{Line, RecordError, ResultRecord};

impl Agent {
    /// Runs them, a few at once; the results come back in call order. Each goes into the history and the
    /// recording as soon as it is there, so that none is lost when the run is cancelled; in the end they stand in call
    /// order in the history as well. When the recording fails, the calls of the turn still come to their end.
    pub(super) async fn call_all(
        &mut self,
        calls: &[ModelCall],
        withheld: &HashSet<String>,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Vec<ResultRecord>, RecordError> {
        let Self { door, caller, history, options, recorder, .. } = self;
        let mut recorded = Ok(());
        let mut slots: Vec<Option<ResultRecord>> = vec![None; calls.len()];
        let mut waiting = calls.iter().enumerate();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < options.calls_at_once_max.max(1) {
                let Some((at, call)) = waiting.next() else { break };
                let refused = refusal(at, call, &options.tool_choice, withheld);
                if refused.is_none() {
                    on_event(&Event::CallStarted {
                        call_id: call.id.clone(),
                        tool: call.name.clone(),
                        arguments: call.arguments.clone(),
                    });
                }
                let (door, caller) = (&*door, &*caller);
                let mut asked = Call::raw(&call.name, &call.arguments).with_id(call.id.as_str());
                // The door then runs nothing, and still records that it was asked for.
                asked.refusal = refused;
                running.push(async move { (at, door.call(caller, asked).await) });
            }
            let Some((at, outcome)) = running.next().await else { break };
            let result = ResultRecord { status: outcome.status(), code: outcome.code(), text: outcome.model_text() };
            if let Some((call, slot)) = calls.get(at).zip(slots.get_mut(at)) {
                history.push(Message::Tool { call_id: call.id.clone(), text: result.text.clone() });
                if let (Some(recorder), Ok(())) = (recorder.as_mut(), &recorded) {
                    let (call_id, tool) = (call.id.clone(), call.name.clone());
                    recorded = recorder.write(&Line::Result { call_id, tool, result: result.clone() });
                }
                *slot = Some(result);
            }
            on_event(&Event::CallFinished { outcome });
        }
        history.repair();
        recorded.map(|()| slots.into_iter().map(Option::unwrap_or_default).collect())
    }
}

impl Default for ResultRecord {
    fn default() -> Self {
        Self { status: Status::Unknown, code: None, text: String::new() }
    }
}
