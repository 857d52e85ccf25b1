//! `tollgate sessions`: the conversations that outlive their processes.

use std::io::IsTerminal;

use tollgate::agent::{Listed, Shown, ShownCall, ShownStep};

use super::audit::short;
use super::{configuration, open};
use crate::args::{Format, Global, SessionsAction};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

pub(crate) async fn run(global: &Global, action: SessionsAction) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    if matches!(action, SessionsAction::List) && !loaded.data_dir().exists() {
        // To look makes no data folder.
        list(global, &[])?;
        return Ok(0);
    }
    let house = open(global, loaded).await?;
    let desk = house.sessions();
    match action {
        SessionsAction::List => list(global, &desk.list().await?)?,
        SessionsAction::Show { session } => show(global, &desk.show(&session).await?)?,
        SessionsAction::Fork { session, turn, name } => {
            let copy = desk.fork(&session, name, turn).await?;
            let copy = desk.show(&copy.id).await?;
            match output::format(global) {
                Format::Json => output::json(&copy)?,
                Format::Text => {
                    let label = copy.name.as_deref().unwrap_or(&copy.id);
                    output::line(&format!("{label} is a copy: go on with `tollgate run --resume {label} \"…\"`"))?;
                }
            }
        }
        SessionsAction::Export { session, form } => {
            for line in desk.export(&session, form.into()).await? {
                output::line(&line)?;
            }
        }
    }
    Ok(0)
}

fn list(global: &Global, sessions: &[Listed]) -> Result<(), Failure> {
    if output::format(global) == Format::Json {
        return output::json(&sessions);
    }
    if sessions.is_empty() {
        return output::line("there are no sessions");
    }
    let rows = sessions.iter().map(|session| {
        vec![
            session.name.clone().unwrap_or_else(|| session.id.clone()),
            session.status.to_owned(),
            session.turns.to_string(),
            format!("{} ({})", session.subject, session.role),
            session.model.clone(),
            session.updated.chars().take("2026-01-01T00:00:00".len()).collect::<String>().replace('T', " "),
            visible(session.prompt.as_deref().unwrap_or_default()).chars().take(80).collect(),
        ]
    });
    output::out(&output::table(&["session", "status", "turns", "caller", "model", "used (UTC)", "prompt"], rows))
}

fn show(global: &Global, session: &Shown) -> Result<(), Failure> {
    if output::format(global) == Format::Json {
        return output::json(session);
    }
    let is_terminal = std::io::stdout().is_terminal();
    let name = session.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    let mut text =
        format!("{}{name} — {} ({}), model {}\n", session.id, session.subject, session.role, visible(&session.model));
    if let Some(from) = &session.forked_from {
        text.push_str(&format!("a copy of {from}\n"));
    }
    for step in &session.steps {
        match step {
            ShownStep::Prompt { text: prompt, .. } => {
                text.push_str(&style(Style::Bold, &format!("\n› {}\n", visible(prompt)), is_terminal));
            }
            ShownStep::Turn { turn, text: said, calls, usage } => {
                let tokens = usage.map(|usage| format!(" · {} + {} tokens", usage.input_tokens, usage.output_tokens));
                let head = format!("\nturn {turn}{}\n", tokens.unwrap_or_default());
                text.push_str(&style(Style::Dim, &head, is_terminal));
                if !said.is_empty() {
                    text.push_str(&format!("{}\n", visible(said)));
                }
                calls.iter().for_each(|call| text.push_str(&shown(call)));
            }
        }
    }
    if session.steps.iter().any(|step| matches!(step, ShownStep::Turn { calls, .. } if !calls.is_empty())) {
        text.push_str(&style(
            Style::Dim,
            &format!("\nevery attempt: tollgate audit query --session {}\n", session.id),
            is_terminal,
        ));
    }
    output::out(&text)
}

fn shown(call: &ShownCall) -> String {
    let came = match (&call.result, &call.approval) {
        (Some(result), _) => {
            let attempt = result.attempt.as_ref().map(|attempt| format!(" (attempt {})", short(attempt.as_str())));
            format!("{}{}: {}", result.status.as_str(), attempt.unwrap_or_default(), visible(&result.text))
        }
        (None, Some(approval)) => format!("waits for approval {approval}"),
        (None, None) => "no outcome is known".to_owned(),
    };
    format!("→ {} {}\n  {}\n", visible(&call.tool), visible(&call.arguments), came.replace('\n', "\n  "))
}
