//! Erasing what is too old while somebody is served.

use std::convert::Infallible;
use std::time::Duration;

use tollgate::ledger::LedgerError;
use tollgate::{Error, OperatorError, Tollgate};

use crate::output;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Erases what is too old, and never ends. What cannot be erased now is tried again at the next look.
pub(crate) async fn retain(house: &Tollgate) -> Infallible {
    loop {
        match house.retain().await {
            // Another process that shares the data folder is at it.
            Ok(_) | Err(Error::Operator(OperatorError::Ledger(LedgerError::Busy { .. }))) => {}
            // Said even where nothing else is: the operator believes that it is gone.
            Err(error) => output::err(&format!("tollgate: what is too old could not be erased: {error}\n")),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
