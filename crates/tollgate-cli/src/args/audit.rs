//! The words by which the ledger is asked.

use std::path::PathBuf;

use clap::Args;
use tollgate::ledger::Cursor;

use super::FormatArg;

/// What is asked for of the ledger. Of the words of one filter one must fit, of the filters all.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// From then on: 2h, 7d, 2026-11-30, 2026-11-30T09:30 (here), 2026-11-30T09:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Up to then; a day is within
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Who asked
    #[arg(long, value_name = "NAME,…")]
    caller: Option<String>,
    /// In which role
    #[arg(long, value_name = "ROLE,…")]
    role: Option<String>,
    /// For which tenant
    #[arg(long, value_name = "NAME,…")]
    tenant: Option<String>,
    /// Of which tool
    #[arg(long, value_name = "GLOB,…")]
    tool: Option<String>,
    /// With which code it ended; docs/errors.md lists them
    #[arg(long, value_name = "CODE,…")]
    code: Option<String>,
    /// How it ended: done, refused, failed, waiting, unknown, open
    #[arg(long, value_name = "STATUS,…")]
    status: Option<String>,
    /// What the tool does to the world: read, write, dangerous
    #[arg(long, value_name = "RISK,…")]
    risk: Option<String>,
    /// What happened in it, such as approved or settled
    #[arg(long, value_name = "EVENT,…")]
    event: Option<String>,
    /// The one whose id begins or ends so
    #[arg(long, value_name = "ID")]
    attempt: Option<String>,
    /// In which session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl FilterArgs {
    /// The filters that are given, by the names of [`tollgate::ledger::Filter`].
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("since", &self.since),
            ("until", &self.until),
            ("caller", &self.caller),
            ("role", &self.role),
            ("tenant", &self.tenant),
            ("tool", &self.tool),
            ("code", &self.code),
            ("status", &self.status),
            ("risk", &self.risk),
            ("event", &self.event),
            ("attempt", &self.attempt),
            ("session", &self.session),
        ];
        all.into_iter().filter_map(|(name, text)| text.as_deref().map(|text| (name, text)))
    }
}

/// `audit query`.
#[derive(Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// At most so many attempts
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,
    /// Only what comes after this place, as an earlier answer gave it
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<Cursor>,
    /// Print their records instead; with --event only those of that event
    #[arg(long)]
    pub(crate) records: bool,
}

/// `audit export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// What to write: jsonl, csv, parquet, ocsf
    #[arg(id = "format", long, value_name = "FORMAT", value_parser = export_format)]
    pub(crate) format: FormatArg,
    /// Write this file, whole or not at all [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

fn export_format(name: &str) -> Result<FormatArg, String> {
    name.parse().map(FormatArg::Export)
}
