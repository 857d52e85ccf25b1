//! Budget: what a call costs is held before it starts, given back when it never does, and spent once it ran.

use tollgate_store::{Charge, Spending, StoreError};
use tollgate_types::{Text, Units};

use super::approve::Cleared;
use super::judge::Judged;
use super::{Stop, store_full, store_unavailable};
use crate::budget::{Account, accounts};
use crate::gate::Trip;

/// Stops before a human is asked about what cannot be paid. Nothing is held: a call that waits spends nothing.
pub(crate) async fn look(trip: Trip<'_>, judged: &Judged) -> Result<(), Stop> {
    if !judged.asks() {
        return Ok(());
    }
    let Some((accounts, cost)) = bill(trip, judged)? else { return Ok(()) };
    let counts = accounts.iter().map(|account| account.count.clone()).collect();
    let spent = trip.gate.inner().store.spent(counts).await.map_err(|error| store_unavailable(&error))?;
    let is_short = |spent: Units, account: &Account<'_>| spent.plus(cost).is_none_or(|sum| sum > account.limit());
    match accounts.iter().zip(spent).find(|(account, spent)| is_short(*spent, account)) {
        Some((account, spent)) => Err(Stop::Error(account.refusal(cost, spent))),
        None => Ok(()),
    }
}

/// Holds what the call costs under every budget that concerns it, or stops at the one that has too little left.
pub(super) async fn hold(trip: Trip<'_>, cleared: &Cleared) -> Result<(), Stop> {
    let Some((accounts, cost)) = bill(trip, cleared)? else { return Ok(()) };
    let gate = trip.gate.inner();
    let charge = |account: &Account<'_>| Charge { count: account.count.clone(), cost, limit: account.limit() };
    let charges = accounts.iter().map(charge).collect();
    let spending = gate.store.spend(trip.attempt.id.clone(), charges, gate.clock.now()).await;
    if let Ok(Spending::Short { charge, spent }) = spending {
        let refusal = accounts.get(charge).map(|account| account.refusal(cost, spent));
        return Err(
            refusal.map_or_else(|| Stop::Error(Text::Amiss.error(&[("what", &"a budget went missing")])), Stop::Error)
        );
    }
    // What could not be stored may have been, all the same: then it is given back.
    trip.attempt.spends();
    spending.map(drop).map_err(|error| match error {
        StoreError::Limit(message) => store_full(message),
        other => store_unavailable(&other),
    })
}

/// What the call costs, and whom. None where no budget concerns it or it costs nothing.
fn bill<'a>(trip: Trip<'a>, judged: &Judged) -> Result<Option<(Vec<Account<'a>>, Units)>, Stop> {
    let (gate, definition) = (trip.gate.inner(), &judged.entry().definition);
    let accounts = accounts(&gate.budgets, &trip.attempt.caller, &definition.name, gate.clock.now());
    if accounts.is_empty() {
        return Ok(None);
    }
    let cost =
        definition.cost_of(judged.arguments()).map_err(|why| Stop::Error(Text::CostUnsaid.error(&[("why", &why)])))?;
    Ok((cost > Units::ZERO).then_some((accounts, cost)))
}
