//! The words by which the ledger is asked.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tollgate::ledger::Cursor;

use super::{FormatArg, ProfileArg, VerdictArg};
use crate::language::Language;

/// `audit …`.
#[derive(Subcommand)]
pub(crate) enum AuditAction {
    /// Print the last records
    #[command(
        after_help = "With filters, a record is printed if what it says itself fits, among the last 100000: only \
                      `finished` has a status and a code.\n\nExample:\n  tollgate audit tail -f --status refused,failed"
    )]
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
        lines: usize,
        /// Go on with what comes
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Find attempts: who asked for what, and what became of it
    #[command(
        after_help = "An attempt stands at the time when it came in; the newest comes first. Elsewhere than on a \
                      terminal, each line is a JSON object, and its `cursor` asks for what comes after it. The answer \
                      comes from an index, audit/index.sqlite in the data folder, which is caught up first and can be \
                      deleted at any time.\n\nExamples:\n  tollgate audit query --since 2h --status refused\n  tollgate audit \
                      query --caller alice --tool 'mcp__files__*' --since 2026-11-01 --until 2026-11-30\n  tollgate audit \
                      query --event approved --records"
    )]
    Query(QueryArgs),
    /// Tell the story of one attempt
    Show {
        /// Its id, or an unambiguous part of it
        attempt: String,
        /// In which language [default: that of the locale]
        #[arg(long, value_enum, value_name = "LANGUAGE")]
        lang: Option<Language>,
    },
    /// What was tried, by whom, and why it was refused, in numbers
    #[command(after_help = "Example:\n  tollgate audit report --since 7d --html report.html")]
    Report {
        #[command(flatten)]
        filter: FilterArgs,
        /// Write a page with plots that needs nothing else
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Take records out, oldest first
    #[command(
        after_help = "jsonl: the records' own lines, those of an attempt together · csv, parquet: a row an attempt \
                      · ocsf: an API Activity event (6003) of OCSF 1.8.0 an attempt. docs/audit.md lists the \
                      columns.\n\nExample:\n  tollgate audit export --format parquet --since 2026-11-01 --out november.parquet"
    )]
    Export(ExportArgs),
    /// Check every record and checkpoint: exit 0 intact, 1 changed or cut, 6 unreadable
    #[command(
        after_help = "Without --anchor, a ledger that was cut at its end together with its checkpoints, or written anew by \
                      somebody who has its key, cannot be told from the true one.\n\nExamples:\n  tollgate audit verify \
                      --pubkey ledger.vkey --anchor /mnt/other/checkpoints.jsonl"
    )]
    Verify {
        /// The key that signed it, kept elsewhere [default: the data folder's own]
        #[arg(long, value_name = "KEY|FILE")]
        pubkey: Option<String>,
        /// Checkpoints that were kept elsewhere: what `[audit.anchor]` wrote
        #[arg(long, value_name = "FILE|URL")]
        anchor: Option<String>,
    },
    /// Print a proof that a record is in the ledger, for somebody who has nothing but the key
    #[command(
        after_help = "Example:\n  tollgate audit prove 42 > proof.json\n  python3 examples/check_proof.py ledger.vkey proof.json"
    )]
    Prove {
        /// The record's number
        seq: u64,
        /// An earlier checkpoint, as a signed note: prove also that nothing was changed since
        #[arg(long, value_name = "FILE")]
        since: Option<PathBuf>,
    },
    /// Print the key that checkpoints are verified with. Keep it elsewhere
    Key,
    /// Open a ledger that is damaged
    #[command(
        after_help = "Damage behind the last checkpoint is mended by itself. With --accept-damage a ledger opens that is not \
                      as its checkpoints say: it goes on where the newest of them holds, with a new key; what does not \
                      continue the chain is moved into .torn files, the old key and checkpoints are put aside, and a record \
                      says so. Keep a copy of the data folder first."
    )]
    Recover {
        /// Go on in spite of damage
        #[arg(long)]
        accept_damage: bool,
    },
    /// Say what became of an attempt that was started and never finished; without one, list them
    Settle {
        /// Its id, or an unambiguous part of it
        attempt: Option<String>,
        /// What you found out
        #[arg(long = "as", value_enum, value_name = "WHAT", requires = "attempt")]
        verdict: Option<VerdictArg>,
        /// How you found out
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Erase the content of attempts. The chain stays, and says what was erased, by whom and why
    #[command(
        after_help = "Arguments, results, keys and reasons go; who asked for which tool and how it ended stays. With --whole \
                      that goes too. Copies in the data folder go as well: the index, kept results, stored answers, the \
                      arguments of questions that are over. What remains is printed. There is no way back: look first, with \
                      --dry-run.\n\nExamples:\n  tollgate audit erase --caller alice --reason 'asked for on 2026-11-30' \
                      --dry-run\n  tollgate audit erase --attempt 0123456789ab --whole --reason 'a password in a path'"
    )]
    Erase(EraseArgs),
    /// Erase what is older than `[audit.retention]` says that it is kept
    #[command(after_help = "`tollgate serve` does the same at its start and once a day.")]
    Retain {
        /// Only say how much it would be
        #[arg(long)]
        dry_run: bool,
    },
    /// Copy standard input to standard output without secrets
    #[command(
        after_help = "What is hidden, and how it is marked, is as in the ledger: docs/ledger-format.md. The digits of \
                      the marks are made under the data folder's key; where there is none, under one that is made for this \
                      run and not kept. Bytes that are not UTF-8 pass through.\n\nExamples:\n  journalctl -u shop | \
                      tollgate audit redact > shop.log\n  tollgate audit redact --secret-env SHOP_TOKEN --profile pii < a.log"
    )]
    Redact {
        /// Hide the value of this environment variable, however it is encoded; may be said several times
        #[arg(long, value_name = "NAME")]
        secret_env: Vec<String>,
        /// What is hidden [default: the configuration's `redact.profile`]
        #[arg(long, value_enum, value_name = "PROFILE")]
        profile: Option<ProfileArg>,
    },
}

/// `audit erase`: of what is said of whose content, all must fit.
#[derive(Args)]
pub(crate) struct EraseArgs {
    /// Of the attempt whose id begins or ends so
    #[arg(long, value_name = "ID")]
    pub(crate) attempt: Option<String>,
    /// Of those who asked
    #[arg(long, value_name = "NAME,…")]
    pub(crate) caller: Option<String>,
    /// Of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Of what came in before then: 90d, 2026-01-01 (the day is not within), 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) before: Option<String>,
    /// Erase also who asked for which tool, and what was decided
    #[arg(long)]
    pub(crate) whole: bool,
    /// Why; the ledger keeps it, so name no one
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only say how much it would be
    #[arg(long)]
    pub(crate) dry_run: bool,
}

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
