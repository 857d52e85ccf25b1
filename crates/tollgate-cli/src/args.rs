//! The words of the command line.

mod audit;
mod mcp;
mod run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tollgate::ledger::ExportFormat;

pub(crate) use audit::{AuditAction, EraseArgs, ExportArgs, FilterArgs, QueryArgs};
pub(crate) use mcp::{AddArgs, LoginArgs, McpAction};
pub(crate) use run::{RunArgs, SessionsAction};

/// The tool layer of AI agents: decides whether a tool call may happen, makes it happen, and writes it down.
#[derive(Parser)]
#[command(
    name = "tollgate",
    version,
    after_help = "Exit status: 0 done · 1 failed · 2 usage or configuration · 3 refused · 4 waits for a human · \
                  5 outcome unknown · 6 no record, no call.\n\nMachine output goes to standard output and nothing else \
                  does. `tollgate COMMAND --help` teaches each command."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args)]
pub(crate) struct Global {
    /// The configuration file [default: tollgate.toml here or in a parent, else ~/.config/tollgate/tollgate.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The role to act in [default: the configuration's `role`; for `serve`: reader]
    #[arg(long, global = true, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// How to print [default: text on a terminal, json elsewhere]
    #[arg(long, global = true, value_enum)]
    pub(crate) format: Option<FormatArg>,
    /// Print no warnings
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print more of what happens, to standard error; twice for details
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// What `--format` says.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// For people
    Text,
    /// For programs
    Json,
    /// What `audit export` writes; said there alone
    #[value(skip)]
    Export(ExportFormat),
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write a commented tollgate.toml, and take over the server lists of other MCP clients
    #[command(after_help = "Without --import, the lists of this folder are taken over: .mcp.json, .cursor/mcp.json, \
                      .vscode/mcp.json and .codex/config.toml; those of the user are named. Where tollgate.toml is there \
                      already, --import adds what it does not have and leaves the rest as it is. A secret that stands in a \
                      list goes into a file of its own in the data folder. No server is started.\n\nExit status: 0 done · \
                      1 a list could not be read, or a server not taken over.\n\nExamples:\n  tollgate init\n  \
                      tollgate init --import claude,cursor --dry-run\n  tollgate init --import ~/other/mcp.json")]
    Init(InitArgs),
    /// Serve the tools over HTTP (MCP, REST), or to one MCP client on standard input and output
    #[command(
        after_help = "Over HTTP a client sends its key: `Authorization: Bearer KEY`. The first start makes a client's \
                            and an operator's; `tollgate keys` makes others.\n\nExample, in the configuration of an MCP \
                            client that starts its servers:\n  {\"mcpServers\": {\"tollgate\": {\"command\": \"tollgate\", \
                            \"args\": [\"serve\", \"--stdio\", \"--role\", \"developer\"]}}}"
    )]
    Serve(ServeArgs),
    /// Let a model work with the tools
    #[command(after_help = "Examples:\n  tollgate run \"how many lines has README.md?\"\n  tollgate run --replay \
                            examples/inventory/recorded-run.jsonl    no model needed\n  tollgate run    a conversation\n  tollgate run \
                            --session order-17 \"order ten keyboards\"\n  tollgate run --resume order-17    after an approval, or a \
                            crash\n  tollgate run --max-cost 0.20 --max-time 5m \"tidy the \
                            notes\"\n\nA run is kept as a session. Where a call waits for a human and nobody sits here, the run \
                            ends with exit status 4 and says which command goes on.")]
    Run(RunArgs),
    /// Take one call through the gate and print the outcome object
    #[command(after_help = "Examples:\n  tollgate call calculate '{\"expression\": \"34817 * 293\"}'\n  \
                            echo '{\"path\": \"README.md\"}' | tollgate call read_file -\n  tollgate call query_database @query.json")]
    Call(CallArgs),
    /// Take back what a call did, by a call of its own through the gate
    #[command(
        after_help = "What takes a call back its tool declares as `undo`: `tollgate tools show TOOL` says it. It happens \
                      once, and a file that was changed since is left alone.\n\nExit status: as of `call`; 3 also where \
                      nothing can be undone.\n\nExample:\n  tollgate undo 8a2b1c04d3e5"
    )]
    Undo {
        /// The attempt's id, or the beginning or end of it
        attempt: String,
    },
    /// List and show the tools that the role may use
    Tools {
        #[command(subcommand)]
        action: ToolsAction,
    },
    /// Answer the questions of calls that wait for a human
    Approvals {
        #[command(subcommand)]
        action: ApprovalsAction,
    },
    /// List, show, copy and export the conversations of `run`
    Sessions {
        #[command(subcommand)]
        action: SessionsAction,
    },
    /// Make, list and revoke the keys of the HTTP server
    Keys {
        #[command(subcommand)]
        action: KeysAction,
    },
    /// Add, look at and measure the MCP servers that Tollgate calls
    Mcp {
        #[command(subcommand)]
        action: McpAction,
    },
    /// Check, test and explain who may do what
    Policy {
        #[command(subcommand)]
        action: PolicyAction,
    },
    /// Replay data sets through the gate
    Eval {
        #[command(subcommand)]
        action: EvalAction,
    },
    /// Read, verify and settle the ledger
    Audit {
        #[command(subcommand)]
        action: AuditAction,
    },
    /// Say what is missing and how to mend it
    #[command(
        after_help = "Every MCP server is started or asked, and every secret fetched. What must be mended comes with the \
                      command that mends it.\n\nExit status: 0 well · 1 something must be mended; for `doctor url`: 0 allowed \
                      · 3 blocked.\n\nExamples:\n  tollgate doctor --offline\n  tollgate doctor url https://example.com/page"
    )]
    Doctor {
        /// Start no MCP server and ask none
        #[arg(long)]
        offline: bool,
        /// How long the MCP servers may take to say what they have
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
        wait: u64,
        #[command(subcommand)]
        action: Option<DoctorAction>,
    },
    /// Print a completion script
    #[command(
        after_help = "Example:\n  tollgate completions bash > ~/.local/share/bash-completion/completions/tollgate"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Write the generated documentation
    #[command(hide = true)]
    Docs {
        /// Where to
        folder: PathBuf,
    },
}

/// `init`.
#[derive(Args)]
pub(crate) struct InitArgs {
    /// Write over an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Whose lists: claude, claude-desktop, cursor, vscode, codex, project, all, none, or a file
    #[arg(long, value_name = "LIST,…", value_delimiter = ',')]
    pub(crate) import: Vec<String>,
    /// Write nothing, and print what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `serve`.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Speak MCP on standard input and output
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Where to listen [default: the configuration's `server.bind`, 127.0.0.1:7373]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "stdio")]
    pub(crate) bind: Option<String>,
    /// Only the tools whose names fit one of these globs
    #[arg(long, value_name = "GLOB,…", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// Only the set of this name, `[sets.NAME]`; over HTTP each set has its path, /mcp/NAME
    #[arg(long, value_name = "NAME", requires = "stdio")]
    pub(crate) set: Option<String>,
    /// How many threads calls share: 1 answers soonest, more answer more at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
}

/// `eval …`.
#[derive(Subcommand)]
pub(crate) enum EvalAction {
    /// Prompt injection: AgentDojo's tasks and attacks, made by an agent that follows every one
    #[command(after_help = "`scripts/agentdojo` makes the recording and runs this. docs/injection.md says what is \
                      replayed.\n\nExit status: 0 no attack went through and no task was lost · 1 otherwise.")]
    Agentdojo(AgentdojoArgs),
}

/// `eval agentdojo`.
#[derive(Args)]
pub(crate) struct AgentdojoArgs {
    /// The recording that scripts/agentdojo_record.py wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) data: PathBuf,
    /// The policies: a folder for each suite
    #[arg(long, value_name = "DIR", default_value = "examples/policies/agentdojo")]
    pub(crate) policies: PathBuf,
    /// Write the page about it
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// `call`.
#[derive(Args)]
pub(crate) struct CallArgs {
    /// The tool's name
    pub(crate) tool: String,
    /// The arguments as JSON; `-` reads standard input, `@FILE` a file [default: {}]
    #[arg(value_name = "JSON|-|@FILE", allow_hyphen_values = true)]
    pub(crate) arguments: Option<String>,
    /// Let this happen at most once under this key
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// `tools …`.
#[derive(Subcommand)]
pub(crate) enum ToolsAction {
    /// List them
    List,
    /// Show one: its description, schema, risk and limits
    Show {
        /// Its name
        name: String,
    },
}

/// `approvals …`.
#[derive(Subcommand)]
pub(crate) enum ApprovalsAction {
    /// List the open questions
    List {
        /// The answered and expired ones too
        #[arg(long)]
        all: bool,
    },
    /// Show one: exactly what would run
    Show {
        /// Its id, or the end of it
        id: String,
    },
    /// Say yes, once, or give the result that is wanted; the asker then asks again
    #[command(
        after_help = "Examples:\n  tollgate approvals approve 4c1d9a02\n  tollgate approvals approve 4c1d9a02 --result \
                            '{\"stock\": 12}'    where a result is wanted"
    )]
    Approve(AnswerArgs),
    /// Say no
    Reject(AnswerArgs),
    /// List what was approved for the rest of a session
    Grants,
    /// Take back what was approved for the rest of a session
    Revoke {
        /// Its id, or the end of it
        id: String,
    },
}

/// `keys …`.
#[derive(Subcommand)]
pub(crate) enum KeysAction {
    /// Make a key and print it, once
    #[command(
        after_help = "Examples:\n  tollgate keys create laptop --role developer\n  tollgate keys create alice --operator"
    )]
    Create {
        /// Who holds it: the subject of its calls
        name: String,
        /// Let it answer approvals and read the ledger, and not call
        #[arg(long)]
        operator: bool,
    },
    /// List them
    List,
    /// Make one count for nothing
    Revoke {
        /// Its name
        name: String,
    },
}

/// `policy …`.
#[derive(Subcommand)]
pub(crate) enum PolicyAction {
    /// Check the roles and the rules, and try the rules' own examples
    #[command(after_help = "Exit status: 0 well · 2 something is wrong; each place is printed.")]
    Check {
        /// The file of rules [default: the configuration's `policy.file`]
        file: Option<PathBuf>,
    },
    /// Check, and try the cases that stand beside the rules
    #[command(
        after_help = "The cases of rules.cedar are in rules.cases.toml or rules.cases.json; docs/policy.md says how they                       are written.

Exit status: 0 all as expected · 1 a case is not · 2 the rules or the cases are broken."
    )]
    Test {
        /// The file of rules [default: the configuration's `policy.file`]
        file: Option<PathBuf>,
        /// The cases
        #[arg(long, value_name = "FILE")]
        cases: Option<PathBuf>,
    },
    /// Say what becomes of a call, by which rules, and what would change the answer; nothing runs
    #[command(
        after_help = "Exit status: 0 allowed, or a human is asked · 3 denied.\n\nExamples:\n  tollgate policy explain --role \
                      reader write_file '{\"path\": \"notes.md\"}'\n  tollgate policy explain send_mail \
                      '{\"to\": [\"ann@example.com\"]}' --tainted --from recipients=user"
    )]
    Explain(ExplainArgs),
}

/// `policy explain`.
#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The tool's name
    pub(crate) tool: String,
    /// The arguments as JSON; `-` reads standard input, `@FILE` a file [default: {}]
    #[arg(value_name = "JSON|-|@FILE", allow_hyphen_values = true)]
    pub(crate) arguments: Option<String>,
    /// Where the value of an argument comes from, by the argument's name in rules: user, operator, outside, tool, model; a
    /// list may have several [default: model]
    #[arg(long, value_name = "ARGUMENT=ORIGIN,…")]
    pub(crate) from: Vec<String>,
    /// Who calls [default: you]
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// The caller's tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// As if this were the environment [default: the configuration's `environment`]
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,
    /// As if a human had said yes
    #[arg(long)]
    pub(crate) approved: bool,
    /// As if the session had read content from outside
    #[arg(long)]
    pub(crate) tainted: bool,
    /// As if it were this time, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<tollgate::Timestamp>,
}

/// A yes or no.
#[derive(Args)]
pub(crate) struct AnswerArgs {
    /// The question's id, or the end of it
    pub(crate) id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Let every call of this tool by this caller run for the rest of the session: an hour and 100 calls at most
    #[arg(long)]
    pub(crate) for_session: bool,
    /// The result of the call as JSON, where the question wants it; `-` reads standard input, `@FILE` a file
    #[arg(long, value_name = "JSON|-|@FILE", conflicts_with = "for_session", allow_hyphen_values = true)]
    pub(crate) result: Option<String>,
    /// What must be typed to say yes, where the question wants it; on a terminal it is asked for
    #[arg(long, value_name = "TEXT")]
    pub(crate) typed: Option<String>,
}

/// What `audit redact` hides.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Secrets, and numbers of cards
    Default,
    /// Personal data too
    Pii,
}

/// `doctor …`.
#[derive(Subcommand)]
pub(crate) enum DoctorAction {
    /// Say whether a URL from a model or a tool may be asked: where does it lead?
    Url {
        /// The URL
        url: String,
        /// Take these addresses for a name instead of asking the resolver
        #[arg(long, value_name = "HOST=IP,…", value_delimiter = ',')]
        resolve: Vec<String>,
    },
}

/// What became of an attempt.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum VerdictArg {
    /// It happened
    Done,
    /// It did not happen
    Failed,
}
