//! What must hold in every story, whatever died in it. Each law is read off the ledger as anybody reads it, and compared with
//! what the askers were told and what happened to the world.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;
use tollgate_types::{Outcome, Status, limits};

use super::process::World;
use crate::world::records;

/// What was acknowledged.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) outcomes: Vec<Outcome>,
    /// The ids of the questions, in the order in which askers heard of them.
    pub(crate) questions: Vec<String>,
    /// What an operator said, by the question's id.
    pub(crate) answers: Vec<(String, bool)>,
    /// The attempts that an operator settled.
    pub(crate) settled: Vec<String>,
}

type Law = Result<(), String>;

fn hold(is_kept: bool, what: impl FnOnce() -> String) -> Law {
    if is_kept { Ok(()) } else { Err(what()) }
}

/// The records of one attempt that tell its life.
#[derive(Default)]
struct Life<'a> {
    received: Vec<&'a Value>,
    started: Vec<&'a Value>,
    ended: Vec<&'a Value>,
    settled: Vec<&'a Value>,
}

fn lives(records: &[Value]) -> BTreeMap<&str, Life<'_>> {
    let mut lives: BTreeMap<&str, Life<'_>> = BTreeMap::new();
    for record in records {
        let Some(attempt) = record["attempt"].as_str() else { continue };
        let life = lives.entry(attempt).or_default();
        match record["event"].as_str() {
            Some("received") => life.received.push(record),
            Some("started") => life.started.push(record),
            Some("finished" | "waiting") => life.ended.push(record),
            Some("settled") => life.settled.push(record),
            _ => {}
        }
    }
    lives
}

/// What holds at every moment.
pub(crate) fn always(world: &World) -> Law {
    let unrecorded = world.unrecorded.lock().unwrap();
    hold(unrecorded.is_empty(), || format!("ran without `started`: {unrecorded:?}"))
}

/// What holds once everybody is gone and the next process has looked. The records, if it does.
pub(crate) fn at_the_end(
    folder: &Path,
    world: &World,
    told: &Told,
    unsettled: &[String],
) -> Result<Vec<Value>, String> {
    let report = tollgate_ledger::verify(folder).map_err(|error| error.to_string())?;
    hold(report.ok, || format!("the chain does not verify: {report:?}"))?;
    let records = records(folder);
    let lives = lives(&records);
    for (attempt, life) in &lives {
        one_life(life).map_err(|what| format!("attempt {attempt}: {what}"))?;
    }
    happened_once(&lives, &world.effects.lock().unwrap())?;
    yes_is_used_once(&records, &lives)?;
    unknown_until_settled(&records, &lives, unsettled, told)?;
    acknowledged_is_recorded(&records, &lives, told)?;
    done_has_happened(&lives, told, &world.effects.lock().unwrap())?;
    Ok(records)
}

/// Exactly one end for each beginning, and nothing started twice.
fn one_life(life: &Life<'_>) -> Law {
    let counts = (life.received.len(), life.started.len(), life.ended.len());
    hold(matches!(counts, (1, 0 | 1, 1)), || format!("received, started and ended {counts:?} times"))?;
    let place = |records: &[&Value]| records.first().and_then(|record| record["seq"].as_u64());
    let (received, started, ended) = (place(&life.received), place(&life.started), place(&life.ended));
    hold(received < ended, || "ended before it was received".into())?;
    hold(started.is_none() || (received < started && started < ended), || "started out of its life".into())
}

/// The scope of a key, as the ledger has it: who, which tool, which key.
fn scope(life: &Life<'_>) -> Option<(String, String, String)> {
    let received = life.received.first()?;
    let text = |pointer: &str| received.pointer(pointer)?.as_str().map(str::to_owned);
    Some((text("/caller/subject")?, text("/tool/name")?, text("/key")?))
}

/// A tool that may not happen twice happens once for each attempt, and once under a key.
fn happened_once(lives: &BTreeMap<&str, Life<'_>>, effects: &[String]) -> Law {
    let mut by_scope: BTreeMap<_, Vec<&String>> = BTreeMap::new();
    for (place, attempt) in effects.iter().enumerate() {
        let life = lives.get(attempt.as_str()).ok_or_else(|| format!("attempt {attempt} has no record"))?;
        hold(life.started.len() == 1, || format!("attempt {attempt} happened without `started`"))?;
        if life.started[0]["tool"]["name"] == "note" || life.started[0]["tool"]["name"] == "pay" {
            hold(!effects[..place].contains(attempt), || format!("attempt {attempt} happened twice"))?;
            if let Some(scope) = scope(life) {
                by_scope.entry(scope).or_default().push(attempt);
            }
        }
    }
    for (scope, attempts) in by_scope {
        for (first, second) in attempts.iter().zip(attempts.iter().skip(1)) {
            hold(is_forgotten(&lives[first.as_str()], &lives[second.as_str()]), || {
                format!("{scope:?} happened twice: {first} and {second}")
            })?;
        }
    }
    Ok(())
}

/// Whether the first call's key had grown old when the second came. It grows old from when it is known what came of it.
fn is_forgotten(first: &Life<'_>, second: &Life<'_>) -> bool {
    let time = |record: &Value| record["time"].as_str().unwrap_or_default().parse::<Timestamp>().unwrap();
    let is_unknown = first.ended[0]["outcome"]["status"] == "unknown";
    let known = if is_unknown { first.settled.last() } else { first.ended.first() };
    known.is_some_and(|known| {
        let age = time(second.received[0]).duration_since(time(known));
        age.as_millis() >= i128::from(limits::IDEMPOTENCY_TTL_MS)
    })
}

/// What wants a yes starts under one that stands before it, and no two start under the same.
fn yes_is_used_once(records: &[Value], lives: &BTreeMap<&str, Life<'_>>) -> Law {
    let mut used = Vec::new();
    for (attempt, life) in lives {
        for started in life.started.iter().filter(|started| started["tool"]["name"] == "pay") {
            let yes = &started["approval"];
            let is_said = |record: &Value| {
                record["event"] == "approved"
                    && &record["approval"] == yes
                    && record["seq"].as_u64() < started["seq"].as_u64()
            };
            hold(yes.is_string() && records.iter().any(is_said), || {
                format!("attempt {attempt} started without a yes")
            })?;
            hold(!used.contains(&yes), || format!("the yes {yes} was used twice"))?;
            used.push(yes);
        }
    }
    Ok(())
}

/// What was started by a process that died is unknown, and waits until an operator settled it. Where the settling process
/// died over that, it may wait once more.
fn unknown_until_settled(
    records: &[Value],
    lives: &BTreeMap<&str, Life<'_>>,
    unsettled: &[String],
    told: &Told,
) -> Law {
    let is_settled = |attempt: &str| records.iter().any(|it| it["event"] == "settled" && it["attempt"] == attempt);
    for (&attempt, life) in lives {
        let ended = life.ended[0];
        let note = ended["note"].as_str().unwrap_or_default();
        let died = note.starts_with("the process ended while the call ran");
        let is_unknown = ended["outcome"]["status"] == "unknown" && life.started.len() == 1;
        hold(!died || is_unknown, || format!("attempt {attempt} died and is not unknown"))?;
        let waits = unsettled.iter().any(|one| one == attempt);
        let acknowledged = told.settled.iter().any(|one| one == attempt);
        let is_right = if waits { died && !acknowledged } else { !died || is_settled(attempt) };
        hold(is_right, || {
            format!("attempt {attempt}: died: {died}, waits to be settled: {waits}, was: {acknowledged}")
        })?;
    }
    Ok(())
}

/// Whatever somebody was told is on record as it was told.
fn acknowledged_is_recorded(records: &[Value], lives: &BTreeMap<&str, Life<'_>>, told: &Told) -> Law {
    for outcome in &told.outcomes {
        let attempt = outcome.attempt.as_ref().ok_or_else(|| format!("an outcome without a record: {outcome:?}"))?;
        let life = lives.get(attempt.as_str()).ok_or_else(|| format!("{attempt} was answered and is not on record"))?;
        let ended = life.ended.first().ok_or_else(|| format!("{attempt} was answered and has no end"))?;
        let status = serde_json::to_value(outcome.status()).unwrap();
        let code = outcome.code().map(|code| code.as_str());
        let is_same = match outcome.status() {
            Status::Waiting => ended["event"] == "waiting",
            _ => ended["outcome"]["status"] == status && ended["outcome"]["code"].as_str() == code,
        };
        hold(is_same, || format!("{attempt} was told {status} {code:?}, and the record says {ended}"))?;
    }
    let has = |event: &str, key: &str, id: &str| records.iter().any(|it| it["event"] == event && it[key] == id);
    for (id, is_yes) in &told.answers {
        let event = if *is_yes { "approved" } else { "rejected" };
        hold(has(event, "approval", id), || format!("the word on {id} was taken and is not on record"))?;
    }
    for attempt in &told.settled {
        hold(has("settled", "attempt", attempt), || format!("{attempt} was settled and that is not on record"))?;
    }
    Ok(())
}

/// Who was told that it is done was told the truth, and the same as the first.
fn done_has_happened(lives: &BTreeMap<&str, Life<'_>>, told: &Told, effects: &[String]) -> Law {
    for outcome in told.outcomes.iter().filter(|outcome| outcome.status() == Status::Done) {
        let Some(attempt) = &outcome.attempt else { continue };
        let text = outcome.model_text();
        if !outcome.replayed {
            hold(text == format!("by {attempt}") && effects.iter().any(|one| one == attempt.as_str()), || {
                format!("{attempt} is done and did not happen: {text}")
            })?;
        } else if let Some(first) = text.strip_prefix("by ") {
            let is_of_its_key =
                lives.get(attempt.as_str()).zip(lives.get(first)).is_some_and(|(a, b)| scope(a) == scope(b));
            hold(is_of_its_key && effects.iter().any(|one| one == first), || {
                format!("{attempt} was told the answer of {first}, which is not that of its key")
            })?;
        }
    }
    Ok(())
}

/// A record without what is different each time.
pub(crate) fn line(record: &Value) -> String {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let note = text("/note").split('`').next().unwrap_or_default();
    let note = if text("/note").contains("ended without closing") { "ended without closing" } else { note };
    let note = note.split(" of attempt").next().unwrap_or_default();
    let (event, tool, code, subject) =
        (text("/event"), text("/tool/name"), text("/outcome/code"), text("/caller/subject"));
    format!("{event} {tool} {subject} {} {code} {note}", text("/key"))
}
