//! Calls through the gate, in process: a read call beside the bare function, a strict write call beside two syncs; in a
//! fresh folder, and again after tens of thousands of records and with hundreds of tools.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tollgate::{
    Ask, Call, Caller, Clock, Cx, Permission, Risk, Role, Status, Surface, SystemClock, Tollgate, limits, tool_fn,
};

use crate::disk::Bare;
use crate::stats::{Aim, Row, median_us};
use crate::{group, proof};

const READS: usize = 20_000;
const WRITES: usize = 400;
const EARLIER_RECORDS: usize = 60_000;
const MORE_TOOLS: usize = 500;
/// As many as may be open at once.
const WAITING: usize = limits::APPROVALS_OPEN_MAX;
const ASKED: usize = 100;

#[derive(Deserialize, JsonSchema)]
struct Text {
    /// A text.
    text: String,
}

fn shout(text: &str) -> String {
    text.to_uppercase()
}

async fn house(folder: &Path, more_tools: usize) -> Result<Tollgate, Box<dyn Error + Send + Sync>> {
    let mut builder = Tollgate::builder()
        .workspace(folder)
        .data_dir(folder.join("data"))
        .role(Role::new("bench").allow("*").risk(Risk::Dangerous).permission(Permission::System).ask(Ask::Never))
        .role(Role::new("asking").allow("*").risk(Risk::Dangerous).permission(Permission::System).ask(Ask::Always))
        .tool(tool_fn("look", "Reads.", |args: Text, _: Cx| async move { Ok(shout(&args.text)) }).risk(Risk::Read))
        .tool(tool_fn("change", "Writes.", |args: Text, _: Cx| async move { Ok(shout(&args.text)) }).risk(Risk::Write));
    for n in 0..more_tools {
        let tool = tool_fn(format!("tool_{n}"), "One of many.", |args: Text, _: Cx| async move { Ok(args.text) });
        builder = builder.tool(tool.risk(Risk::Read));
    }
    Ok(builder.build().await?)
}

/// Every figure of this file.
pub(crate) async fn measure(folder: PathBuf) -> Result<Vec<Row>, Box<dyn Error + Send + Sync>> {
    let fresh = folder.join("fresh");
    std::fs::create_dir(&fresh)?;
    let small = house(&fresh, 0).await?;
    let mut rows = vec![read(&small, "").await?, write(&small, &fresh, "").await?];
    drop(small);

    let many = house(&fresh, MORE_TOOLS).await?;
    let caller = caller();
    for _ in 0..EARLIER_RECORDS / 4 {
        many.call(&caller, call("look")).await;
    }
    let after = format!(", after {EARLIER_RECORDS} more records, {MORE_TOOLS} more tools");
    rows.push(read(&many, &after).await?);
    rows.push(write(&many, &fresh, &after).await?);
    rows.push(waiting(&many).await?);
    rows.push(read(&many, &format!(", beside {WAITING} waiting approvals")).await?);
    rows.push(proof::checkpoint(&many).await?);
    drop(many);
    rows.push(proof::verification(&fresh.join("data"))?);
    rows.extend(group::measure(&folder).await?);
    Ok(rows)
}

fn caller() -> Caller {
    Caller::new("bench", "bench", Surface::Library)
}

fn call(tool: &str) -> Call {
    Call::tool(tool, json!({ "text": "a text of some length, as a model writes it" }))
}

async fn read(house: &Tollgate, after: &str) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let (clock, caller) = (SystemClock::new(), caller());
    let (mut bare, mut gated) = (Vec::with_capacity(READS), Vec::with_capacity(READS));
    for round in 0..READS + READS / 10 {
        let began = clock.monotonic();
        std::hint::black_box(shout(std::hint::black_box("a text of some length, as a model writes it")));
        let between = clock.monotonic();
        let outcome = house.call(&caller, call("look")).await;
        let ended = clock.monotonic();
        if outcome.result().is_none() {
            return Err(format!("a read call failed: {:?}", outcome.end).into());
        }
        if round >= READS / 10 {
            bare.push(between - began);
            gated.push(ended - between);
        }
    }
    let value = median_us(gated) - median_us(bare);
    let against = format!("the function itself, p50 of {READS}");
    Ok(Row { what: format!("read call, added{after}"), value, unit: "µs", aim: Aim::AtMost(50.0), against })
}

/// Calls that begin to wait for a human: the last ones, beside the first.
async fn waiting(house: &Tollgate) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let (clock, caller) = (SystemClock::new(), Caller::new("bench", "asking", Surface::Library));
    let mut times = Vec::with_capacity(WAITING);
    for n in 0..WAITING {
        let began = clock.monotonic();
        let outcome = house.call(&caller, Call::tool("change", json!({ "text": format!("change {n}") }))).await;
        times.push(clock.monotonic() - began);
        if outcome.status() != Status::Waiting {
            return Err(format!("a call did not wait: {:?}", outcome.end).into());
        }
    }
    let last = median_us(times.split_off(WAITING - ASKED));
    times.truncate(ASKED);
    let first = median_us(times);
    let what = format!("call that waits, beside {} waiting ones", WAITING - ASKED);
    let against = format!("the first {ASKED} ({first:.0} µs), p50 of {ASKED}");
    Ok(Row { what, value: last / first, unit: "×", aim: Aim::AtMost(1.5), against })
}

async fn write(house: &Tollgate, folder: &Path, after: &str) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let (clock, caller) = (SystemClock::new(), caller());
    let mut disk = Bare::new(folder)?;
    let (mut bare, mut gated): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for _ in 0..WRITES {
        let began = clock.monotonic();
        disk.pair()?;
        let between = clock.monotonic();
        let outcome = house.call(&caller, call("change")).await;
        let ended = clock.monotonic();
        if outcome.result().is_none() {
            return Err(format!("a write call failed: {:?}", outcome.end).into());
        }
        bare.push(between - began);
        gated.push(ended - between);
    }
    let (bare, gated) = (median_us(bare), median_us(gated));
    let against = format!("two fdatasyncs on the same disk ({bare:.0} µs), p50 of {WRITES}");
    Ok(Row {
        what: format!("strict write call{after}"),
        value: gated / bare,
        unit: "×",
        aim: Aim::AtMost(2.5),
        against,
    })
}
