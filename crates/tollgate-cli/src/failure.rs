//! How a command ends when it cannot do its work: what, where, what would be right, and the exit status.

use std::process::ExitCode;

use miette::{Diagnostic, GraphicalReportHandler, LabeledSpan, NamedSource, SourceCode};
use tollgate::agent::SessionError;
use tollgate::config::ConfigError;
use tollgate::policy::RuleFault;
use tollgate::{Code, Error};

/// Exit status of usage and configuration errors.
pub(crate) const USAGE: u8 = 2;
/// Exit status when nothing may be done: the record or the state is out of reach.
pub(crate) const UNAVAILABLE: u8 = 6;

/// A command that could not do its work.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    exit: u8,
    source_text: Option<Box<(NamedSource<String>, usize)>>,
}

impl Failure {
    fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit, source_text: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Code::Denied.exit(), message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do about it.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints the failure to standard error and gives its exit status.
    pub(crate) fn report(&self) -> ExitCode {
        let mut text = String::new();
        if GraphicalReportHandler::new().render_report(&mut text, self).is_err() {
            text = format!("{self}\n");
        }
        crate::output::tell(&text);
        ExitCode::from(self.exit)
    }
}

impl Diagnostic for Failure {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.hint.as_ref().map(|hint| Box::new(hint) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source_text.as_ref().map(|text| &text.0 as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let offset = self.source_text.as_ref()?.1;
        Some(Box::new(std::iter::once(LabeledSpan::at(offset, "here"))))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let mut failure = Self::usage(error.to_string());
        failure.hint.clone_from(&error.hint);
        if error.line > 0 && !error.text.is_empty() {
            let source = NamedSource::new(error.file.display().to_string(), error.text.into());
            failure.source_text = Some(Box::new((source, error.offset)));
        }
        failure
    }
}

impl From<RuleFault> for Failure {
    fn from(fault: RuleFault) -> Self {
        let mut failure = Self::usage(fault.to_string());
        failure.hint.clone_from(&fault.hint);
        let source = NamedSource::new(&fault.file, fault.text.to_string());
        failure.source_text = Some(Box::new((source, fault.offset)));
        failure
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Config(error) => (*error).into(),
            Error::Folder { .. } => Self::usage(message).hint("set `workspace` and `data_dir` in tollgate.toml"),
            Error::Policy(_) | Error::Unread(_) | Error::Tool(_) | Error::BadTool { .. } => {
                Self::usage(message).hint("correct it in tollgate.toml; docs/config.md lists the keys")
            }
            Error::Ledger(error) => {
                Self::unavailable(message).hint(error.hint().unwrap_or("run `tollgate audit verify`"))
            }
            Error::Store(_) | Error::Operator(_) => Self::unavailable(message),
        }
    }
}

impl From<tollgate::OperatorError> for Failure {
    fn from(error: tollgate::OperatorError) -> Self {
        use tollgate::store::StoreError;
        let message = error.to_string();
        match error {
            tollgate::OperatorError::Store(StoreError::NotFound(_) | StoreError::Conflict(_)) => {
                Self::usage(message).hint("`tollgate approvals list --all` lists them")
            }
            tollgate::OperatorError::Store(StoreError::NotTyped { .. }) => {
                Self::usage(message).hint("give it with --typed")
            }
            tollgate::OperatorError::Unfit(_) => {
                Self::usage(message).hint("`tollgate approvals show ID` says what it must fit")
            }
            tollgate::OperatorError::NotUnsettled(_) => {
                Self::usage(message).hint("`tollgate audit settle` lists those that are")
            }
            tollgate::OperatorError::Store(_) | tollgate::OperatorError::Ledger(_) => Self::unavailable(message),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let message = error.to_string();
        let failure = match error.code() {
            Code::InvalidArguments => Self::usage(message),
            Code::Conflict | Code::Denied | Code::BudgetExceeded => Self::refused(message),
            _ => Self::unavailable(message),
        };
        failure.hint(error.hint())
    }
}
