//! `tollgate undo`: takes back what one attempt did.

use tollgate::{CancellationToken, Surface};

use super::call::{tell, until_stopped};
use super::{audit, caller, configuration, open_for_person, unhurried};
use crate::args::Global;
use crate::failure::Failure;

pub(crate) async fn run(global: &Global, attempt: &str) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let role = global.role.clone().unwrap_or_else(|| loaded.config.role.get_ref().clone());
    // Before anything is opened: a misspelt id makes no data folder.
    let first = audit::attempt(global, attempt)?;
    let house = open_for_person(global, unhurried(loaded)).await?;
    let caller = caller(&house, &role, Surface::Cli)?;
    let cancellation = CancellationToken::new();
    let undo = house.gate().undo(&caller, &first, cancellation.clone());
    let outcome = until_stopped(undo, &cancellation).await;
    tell(global, &house, &outcome).await
}
