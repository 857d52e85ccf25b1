//! `tollgate audit erase` and `retain`: taking content away, and saying what is left.

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tollgate::ledger::{self, Erasable, EraseOrder, Erased, Filter, LedgerError, Level};
use tollgate::store::Copies;
use tollgate::{Clock, Erasing, OperatorError, SystemClock};

use super::query::wrong;
use super::{configuration, open_quietly, unreadable, user};
use crate::args::{EraseArgs, Format, Global};
use crate::failure::Failure;
use crate::output;

pub(super) async fn run(global: &Global, args: &EraseArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let (filter, chosen) = filter(args)?;
    let level = if args.whole { Level::Whole } else { Level::Contents };
    let what = Erasable::Attempts(Box::new(filter));
    // Nothing that is only looked at is opened, and nothing made where there is nothing.
    let would = ledger::would_erase(&loaded.data_dir(), &what, level).map_err(|error| refused(&error))?;
    if args.dry_run {
        return told(global, &Said { erased: &would, copies: None, level: Some(level), is_done: false });
    }
    let house = open_quietly(global, loaded).await?;
    let order = EraseOrder { what, chosen, level, by: user(), reason: args.reason.clone() };
    let erasing = house.operator().erase(order).await.map_err(failed);
    house.stop().await;
    let Erasing { ledger, copies } = erasing?;
    told(global, &Said { erased: &ledger, copies: Some(&copies), level: Some(level), is_done: true })
}

pub(super) async fn retain(global: &Global, dry_run: bool) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let retention = loaded.retention()?;
    if retention == tollgate::Retention::default() {
        let failure = Failure::usage("the configuration does not say how long content is kept");
        return Err(failure.hint("[audit.retention] with contents = \"90d\", keep = \"400d\", or one of them"));
    }
    let data_dir = loaded.data_dir();
    if dry_run {
        let mut all = Erased::default();
        for order in retention.orders(SystemClock::new().now()) {
            let would = ledger::would_erase(&data_dir, &order.what, order.level);
            all.records += would.map_err(|error| refused(&error))?.records;
        }
        return told(global, &Said { erased: &all, copies: None, level: None, is_done: false });
    }
    if !data_dir.join("audit").is_dir() {
        return Err(Failure::unavailable(format!("there is no ledger at `{}`", data_dir.display())));
    }
    let house = open_quietly(global, loaded).await?;
    let erasing = house.retain().await;
    house.stop().await;
    let Erasing { ledger, copies } = erasing?;
    told(global, &Said { erased: &ledger, copies: Some(&copies), level: None, is_done: true })
}

/// Whose content, and by what it is chosen.
fn filter(args: &EraseArgs) -> Result<(Filter, String), Failure> {
    let now = SystemClock::new().now().to_zoned_datetime(TimeZone::system());
    let mut filter = Filter::default();
    let mut chosen = Vec::new();
    for (name, text) in [("attempt", &args.attempt), ("caller", &args.caller), ("session", &args.session)] {
        let Some(text) = text else { continue };
        filter.set(name, text, &now).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        chosen.push(name);
    }
    if let Some(text) = &args.before {
        filter.set_before(text, &now).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        chosen.push("before");
    }
    if filter.is_empty() {
        return Err(Failure::usage("it is not said whose content").hint("--attempt, --caller, --session or --before"));
    }
    Ok((filter, chosen.join(", ")))
}

fn refused(error: &LedgerError) -> Failure {
    match error {
        LedgerError::TooMany { .. } => Failure::usage(error.to_string()).hint(error.hint().unwrap_or_default()),
        LedgerError::Missing { .. } => unreadable(error),
        other => wrong(other),
    }
}

fn failed(error: OperatorError) -> Failure {
    match error {
        OperatorError::Ledger(error) => refused(&error),
        other => other.into(),
    }
}

/// What came of it.
struct Said<'a> {
    erased: &'a Erased,
    copies: Option<&'a Copies>,
    level: Option<Level>,
    is_done: bool,
}

impl Said<'_> {
    fn value(&self) -> Value {
        let Erased { records, attempts, under_way, erasures } = self.erased;
        let mut value = json!({
            "dry_run": !self.is_done, "records": records, "under_way": under_way, "erasures": erasures,
            "remains": self.remains(),
        });
        if let Some(value) = value.as_object_mut() {
            value.extend(self.level.map(|level| ("level".to_owned(), json!(level))));
            value.extend(self.level.map(|_| ("attempts".to_owned(), json!(attempts.len()))));
            value.extend(self.copies.map(|copies| ("copies".to_owned(), json!(copies))));
        }
        value
    }

    fn text(&self) -> String {
        let Erased { records, attempts, under_way, .. } = self.erased;
        let verb = if self.is_done { "erased" } else { "would erase" };
        let mut text = match self.level {
            Some(level) => format!("{verb} {level} of {records} records of {} attempts", attempts.len()),
            None => format!("{verb} what is too old of {records} records"),
        };
        if let Some(copies) = self.copies {
            let Copies { results, answers, approvals, .. } = copies;
            text.push_str(&format!("\nbeside the ledger: {results} results, {answers} answers, {approvals} questions"));
        }
        if *under_way > 0 {
            text.push_str(&format!("\nleft out, because they are under way: {under_way} attempts"));
        }
        text.push_str("\nwhat remains:");
        self.remains().iter().for_each(|line| text.push_str(&format!("\n  {line}")));
        text
    }

    /// What nobody should take for erased.
    fn remains(&self) -> Vec<String> {
        let kept = match self.level {
            Some(Level::Contents) => "who asked for which tool, when, what was decided and noted, and how it ended",
            Some(Level::Whole) => "that there were attempts, their ids, when, and how they ended",
            None => "of contents: who asked for which tool, and how it ended; of the rest: when, and how it ended",
        };
        let mut remains = vec![
            kept.to_owned(),
            "the SHA-256 of each record, which confirms a right guess of all that it said".to_owned(),
        ];
        let Copies { open_approvals, sessions, .. } = self.copies.copied().unwrap_or_default();
        if open_approvals > 0 {
            remains.push(format!(
                "{open_approvals} questions that can still be answered or used: they keep their arguments"
            ));
        }
        if sessions > 0 {
            remains.push(format!("what is said in {sessions} sessions (`tollgate sessions list`)"));
        }
        remains.push("what was taken out before: exports, reports, backups, `.torn` files, logs".to_owned());
        remains
    }
}

fn told(global: &Global, said: &Said<'_>) -> Result<u8, Failure> {
    match output::format(global) {
        Format::Json => output::json(&said.value())?,
        Format::Text => output::line(&said.text())?,
    }
    Ok(0)
}
