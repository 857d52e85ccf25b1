//! `tollgate tools`: the directory, as the role sees it.

use std::io::IsTerminal;

use serde::Serialize;
use tollgate::{BudgetReport, Compensation, FailureReport, Risk, Surface, ToolDefinition, Undo};

use super::{budget, caller, configuration, ladder, open};
use crate::args::{Format, Global, ToolsAction};
use crate::failure::Failure;
use crate::output::{self, Style, style};

pub(crate) async fn run(global: &Global, action: ToolsAction) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let role = global.role.clone().unwrap_or_else(|| loaded.config.role.get_ref().clone());
    let house = open(global, loaded).await?;
    let caller = caller(&house, &role, Surface::Cli)?;
    let tools = house.list(&caller).await;
    house.stop().await;
    match (action, output::format(global)) {
        (ToolsAction::List, Format::Json) => output::json(&tools)?,
        (ToolsAction::List, Format::Text) => {
            let rows = tools.iter().map(|tool| {
                vec![
                    tool.name.clone(),
                    tool.risk.to_string(),
                    tool.permission.to_string(),
                    tool.source.kind.as_str().to_owned(),
                    first_sentence(&tool.description),
                ]
            });
            output::out(&output::table(&["tool", "risk", "permission", "source", "what it does"], rows))?;
        }
        (ToolsAction::Show { name }, format) => {
            let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
                let failure = Failure::usage(format!("no tool is named `{name}` for the role `{role}`"));
                return Err(failure.hint("`tollgate tools list` lists them"));
            };
            let budgets = house.gate().budgets(&caller, &name).await.map_err(tollgate::Error::from)?;
            let failures = house.gate().failures(&name);
            match format {
                Format::Json => output::json(&Shown { tool, budgets, failures })?,
                Format::Text => output::out(&story(tool, &budgets, failures.as_ref()))?,
            }
        }
    }
    Ok(0)
}

/// A definition, and the budgets that its calls count under.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    tool: &'a ToolDefinition,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<BudgetReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<FailureReport>,
}

/// What fits a line of a table.
fn first_sentence(text: &str) -> String {
    const CHARS: usize = 90;
    let sentence =
        text.split_inclusive(['.', '。', ';', '(']).next().unwrap_or(text).trim_end_matches([';', '(']).trim();
    match sentence.char_indices().nth(CHARS) {
        None => sentence.to_owned(),
        Some((end, _)) => format!("{}…", sentence.get(..end).unwrap_or_default()),
    }
}

/// How its effect is taken back; that it is not is said aloud.
fn undo(tool: &ToolDefinition) -> String {
    match &tool.undo {
        _ if tool.risk == Risk::Read => "not needed, it only reads".into(),
        Undo::None => "none declared: what it does cannot be taken back by `tollgate undo`".into(),
        Undo::BeforeImage => "what stood there before is kept for 7 days and put back".into(),
        Undo::Tool(Compensation { tool, map_args: None }) => format!("`{tool}` with the same arguments"),
        Undo::Tool(Compensation { tool, map_args: Some(map) }) => {
            format!("`{tool}` with {}", serde_json::to_string(map).unwrap_or_default())
        }
    }
}

fn story(tool: &ToolDefinition, budgets: &[BudgetReport], failures: Option<&FailureReport>) -> String {
    let bold = |text: &str| style(Style::Bold, text, std::io::stdout().is_terminal());
    let mut text = format!("{} — {}\n", bold(&tool.name), tool.description);
    for part in [&tool.when, &tool.when_not].into_iter().flatten() {
        text.push_str(&format!("{part}\n"));
    }
    let execution = &tool.execution;
    text.push_str(&format!(
        "\nrisk {} · permission {} · category {} · source {}\ntimeout {} ms · {} at once · result cut at {} characters\n",
        tool.risk,
        tool.permission,
        tool.category,
        tool.source.kind.as_str(),
        execution.timeout_ms,
        execution.max_concurrent,
        tool.output.max_length
    ));
    text.push_str(&format!("undo: {}\n", undo(tool)));
    if tool.cost.is_some() || !budgets.is_empty() {
        let cost = tool.cost.as_ref().map_or_else(|| "1".to_owned(), ToString::to_string);
        text.push_str(&format!("costs {cost}\n"));
    }
    for line in budget::lines(budgets) {
        text.push_str(&format!("{line}\n"));
    }
    if let Some(failures) = failures {
        text.push_str(&format!("\n{}\n{}", bold("When it fails"), ladder::lines(&tool.execution, failures)));
    }
    let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap_or_default();
    text.push_str(&format!("\n{}\n{}\n", bold("Arguments"), pretty(&tool.input_schema)));
    if let Some(schema) = &tool.output_schema {
        text.push_str(&format!("\n{}\n{}\n", bold("Result"), pretty(schema)));
    }
    for example in &tool.examples {
        text.push_str(&format!("\n{}\n  tollgate call {} '{example}'\n", bold("Example"), tool.name));
    }
    for (code, meaning) in &tool.errors {
        text.push_str(&format!("\n{} {meaning}", bold(code)));
    }
    if !tool.errors.is_empty() {
        text.push('\n');
    }
    text
}
