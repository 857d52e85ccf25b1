//! The words of `tollgate mcp`.

use clap::{Args, Subcommand};

/// `mcp …`.
#[derive(Subcommand)]
pub(crate) enum McpAction {
    /// Start each and say what it gives, what is set aside, and why one does not answer
    #[command(after_help = "Exit status: 0 all answer · 1 one does not.")]
    List,
    /// Add a server to tollgate.toml; what is there stays as it is
    #[command(
        after_help = "A secret that stands in --env or --header goes into a file of its own in the data folder; \
                      '${NAME}' stands for a variable that Tollgate finds when it starts. No server is started.\n\nExit \
                      status: 0 done · 1 a server was not taken over · 2 the name is another server's.\n\nExamples:\n  \
                      tollgate mcp add files npx -y @modelcontextprotocol/server-filesystem .\n  tollgate mcp add docs \
                      https://example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'\n  tollgate mcp add --from \
                      .mcp.json\n  tollgate mcp add github --from claude"
    )]
    Add(AddArgs),
    /// Start one and show everything that it gives
    #[command(after_help = "Exit status: 0 it answers · 1 it does not.")]
    Inspect {
        /// The server's name
        name: String,
    },
    /// Log in to a server that wants it, in a browser
    #[command(
        after_help = "The login is kept in logins/ of the data folder, for its owner alone, and renewed by itself. On a \
                      machine without a browser, open the address on another one, and with --no-browser paste the address \
                      that the browser is sent to in the end; its page need not load. docs/logins.md.\n\nExit status: 0 \
                      logged in · 2 there is nothing to log in to · 3 refused, or not in time · 6 nobody could be asked.\n\n\
                      Examples:\n  tollgate mcp login docs\n  tollgate mcp login docs --no-browser --scope files:write"
    )]
    Login(LoginArgs),
    /// Forget the login to a server, and take it back where it was given
    #[command(after_help = "Exit status: 0 nobody is logged in any more.")]
    Logout {
        /// The server's name
        name: String,
    },
    /// Start servers and measure how soon they answer
    #[command(after_help = "Exit status: 0 all answer · 1 one does not.")]
    Ping {
        /// The servers' names [default: all]
        names: Vec<String>,
        /// How often each is asked
        #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
        count: u16,
    },
    /// Show what a server printed to standard error, in whatever process
    #[command(after_help = "The last mebibyte is kept in mcp/ of the data folder, without secrets.")]
    Logs {
        /// The server's name
        name: String,
        /// At most so many lines, the last
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        lines: usize,
    },
}

/// `mcp login`.
#[derive(Args)]
pub(crate) struct LoginArgs {
    /// The server's name
    pub(crate) name: String,
    /// Open no browser, and take the address that one was sent to from standard input
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Something that the login is to permit besides what the server wants and the configuration allows
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// How long a human may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) wait: u16,
}

/// `mcp add`.
#[derive(Args)]
pub(crate) struct AddArgs {
    /// Its name: letters, digits, `-` and single `_`; with --from the name of the one that is taken over
    #[arg(required_unless_present = "from")]
    pub(crate) name: Option<String>,
    /// Its address, or its program and arguments
    #[arg(value_name = "URL|PROGRAM", trailing_var_arg = true, conflicts_with = "from")]
    pub(crate) reached: Vec<String>,
    /// A variable of the program's environment
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "from")]
    pub(crate) env: Vec<String>,
    /// A header of every request
    #[arg(long, value_name = "NAME: VALUE", conflicts_with = "from")]
    pub(crate) header: Vec<String>,
    /// Take servers over from a list: claude, claude-desktop, cursor, vscode, codex, project, all, or a file
    #[arg(long, value_name = "LIST")]
    pub(crate) from: Option<String>,
    /// Write nothing, and print what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
}
