//! Lowers tools for scripts: reads lines `{"dialect", "strict", "older", "tools": [definition]}` on standard input and prints
//! for each `{"tools", "notes"}`. `older` asks for Gemini's `parameters`.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tollgate_types::ToolDefinition;
use tollgate_wire::{Dialect, GeminiSchema, Target, lower};

#[derive(Deserialize)]
struct Asked {
    dialect: Dialect,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    older: bool,
    tools: Vec<Arc<ToolDefinition>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked: Asked = serde_json::from_str(&line?)?;
        let gemini = if asked.older { GeminiSchema::OpenApi } else { GeminiSchema::Json };
        let lowered = lower(&asked.tools, &Target { strict: asked.strict, gemini, ..Target::of(asked.dialect) })?;
        let notes: Vec<String> = lowered.notes().iter().map(ToString::to_string).collect();
        writeln!(out, "{}", json!({ "tools": lowered.tools(), "notes": notes }))?;
    }
    Ok(())
}
