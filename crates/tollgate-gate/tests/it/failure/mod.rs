//! What fails, and what is done about it: doubles that fail in every way, crossed with what can be said of them. Time is
//! simulated: tokio's, paused, and the gate's clock shows the same.

mod cases;
mod double;
mod fallback;
mod laws;
mod protection;
mod table;
mod time;
