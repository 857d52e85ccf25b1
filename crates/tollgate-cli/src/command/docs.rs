//! Completions, the manual page, and the pages of docs/ that are made from the code.

mod policies;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use tollgate::Code;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tollgate", &mut script);
    output::out(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(crate) fn man() -> Result<u8, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| Failure::internal(format!("the manual page cannot be made: {error}")))?;
    output::out(&String::from_utf8_lossy(&page))?;
    Ok(0)
}

/// Writes every generated page into `folder`.
pub(crate) fn write(folder: &Path) -> Result<u8, Failure> {
    let schema = tollgate::config::json_schema();
    let pretty = serde_json::to_string_pretty(&schema).map_err(|error| Failure::internal(error.to_string()))?;
    let pages = [
        ("errors.md", errors()),
        ("cli.md", cli()),
        ("config.md", tollgate::config::page(&schema)),
        ("config.schema.json", format!("{pretty}\n")),
        ("dialects.md", tollgate::wire::dialects_page()),
        ("policies.md", policies::page(Path::new(policies::EXAMPLES))?),
    ];
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text)
            .map_err(|error| Failure::usage(format!("`{}` cannot be written: {error}", path.display())))?;
    }
    Ok(0)
}

fn errors() -> String {
    let mut page = String::from(
        "# Codes\n\nGenerated from the code by `tollgate docs`. A call that does not end as `done` carries one of these \
         codes; what a tool says of itself is its `tool_code`.\n\n| code | status | retryable | exit | meaning |\n|---|---|---|---|---|\n",
    );
    for code in Code::ALL {
        let _ = writeln!(
            page,
            "| `{code}` | {} | {} | {} | {} |",
            code.status().as_str(),
            if code.is_retryable() { "yes" } else { "no" },
            code.exit(),
            code.meaning()
        );
    }
    page.push_str("\nExit 0 is done, 2 is a usage or configuration error. For failed calls the tool may say otherwise of `retryable`.\n");
    page
}

fn cli() -> String {
    let mut page = String::from("# Command line\n\nGenerated from the code by `tollgate docs`.\n");
    let mut root = Cli::command().term_width(100);
    root.build();
    describe(&mut page, &mut root, "tollgate");
    page
}

fn describe(page: &mut String, command: &mut clap::Command, path: &str) {
    let _ = writeln!(page, "\n## {path}\n\n```text\n{}\n```", command.render_long_help().to_string().trim_end());
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        if let Some(sub) = command.find_subcommand_mut(&name) {
            describe(page, sub, &format!("{path} {name}"));
        }
    }
}
