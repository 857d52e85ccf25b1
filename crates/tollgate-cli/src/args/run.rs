//! The words of `run` and `sessions`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tollgate::agent::ExportForm;
use tollgate::{Units, limits};

/// `run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to do; without it, a conversation line by line
    pub(crate) prompt: Option<String>,
    /// The model, as configured under [models.NAME] [default: the session's, else `default`]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Keep the run as readable JSON lines in a new file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Take the model's turns from a recording; the tools run for real
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// Begin a session of this name, or go on with it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["replay", "resume"])]
    pub(crate) session: Option<String>,
    /// Go on with a session where its answers were missing; what was done is not done again
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["record", "replay", "system"])]
    pub(crate) resume: Option<String>,
    /// Print every event as a JSON line, on a terminal too
    #[arg(long)]
    pub(crate) json: bool,
    /// Instructions for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// auto, none, required, the name of a tool that must be called first, or several names with commas between: only
    /// those may be called; with `required:` before them one of them must be
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    pub(crate) tool_choice: String,
    /// How an answer is looked for: react [default: the configuration's `run.strategy`]
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    /// Rounds before the model must answer [default: the configuration's `run.rounds_max`, 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::ROUNDS_MAX_MAX)))]
    pub(crate) rounds: Option<u32>,
    /// Tokens that the model may read and write, all rounds together [default: the configuration's `run.tokens_max`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens_total: Option<u64>,
    /// What the run may cost, in the currency of the model's `price` [default: the configuration's `run.cost_max`]
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    pub(crate) max_cost: Option<Units>,
    /// How long the run may take, such as 90s or 10m [default: the configuration's `run.time_max`]
    #[arg(long, value_name = "PERIOD", value_parser = period)]
    pub(crate) max_time: Option<Duration>,
}

fn amount(text: &str) -> Result<Units, String> {
    match text.parse() {
        Ok(Units::ZERO) => Err("a run for nothing asks no model".into()),
        Ok(amount) => Ok(amount),
        Err(why) => Err(format!("{why}")),
    }
}

fn period(text: &str) -> Result<Duration, String> {
    tollgate::config::period(text).ok_or_else(|| "not a period of 1 ms to 31 days, such as 90s or 10m".into())
}

/// `sessions …`.
#[derive(Subcommand)]
pub(crate) enum SessionsAction {
    /// List them, the one used last first
    List,
    /// Show one: what was said, what was called, and what is missing
    Show {
        /// Its name or id, or the beginning or end of the id
        session: String,
    },
    /// Copy one up to a turn, under an id of its own
    #[command(
        after_help = "Example:\n  tollgate sessions fork order-17 --turn 2 --name order-17-b\n  tollgate run --resume \
                            order-17-b \"take the cheaper ones\""
    )]
    Fork {
        /// Its name or id, or the beginning or end of the id
        session: String,
        /// The last turn to copy, as `show` numbers them [default: the last one whose calls all have an outcome]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        turn: Option<u32>,
        /// The name of the copy
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Print one for other programs
    #[command(
        after_help = "Examples:\n  tollgate sessions export order-17 > order-17.jsonl\n  tollgate sessions export \
                            order-17 --as messages"
    )]
    Export {
        /// Its name or id, or the beginning or end of the id
        session: String,
        /// What to print
        #[arg(long = "as", value_name = "FORM", value_enum, default_value_t)]
        form: ExportFormArg,
    },
}

/// What `sessions export` prints.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum ExportFormArg {
    /// A recording, which `run --replay` takes
    #[default]
    Recording,
    /// The messages of OpenAI Chat Completions, one a line
    Messages,
    /// Everything that is kept, as one JSON object
    Record,
}

impl From<ExportFormArg> for ExportForm {
    fn from(form: ExportFormArg) -> Self {
        match form {
            ExportFormArg::Recording => Self::Recording,
            ExportFormArg::Messages => Self::Messages,
            ExportFormArg::Record => Self::Record,
        }
    }
}
