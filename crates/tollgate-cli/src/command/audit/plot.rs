//! Plots as inline SVG: bars beside names, and stacks through time. Each has a title that is read out, and the numbers
//! stand beside it in a table or in the bars themselves; colours come from the page's style alone.

use std::fmt::Write;

use jiff::tz::TimeZone;
use tollgate::ledger::Bin;

use super::page::text;
use super::query::local;

/// Width of a plot, in units of its own; the page scales it.
const WIDTH: u64 = 720;
/// Room for the names of bars.
const NAMES_WIDTH: u64 = 220;
/// Room for the numbers behind bars.
const NUMBERS_WIDTH: u64 = 90;
const BAR_HEIGHT: u64 = 20;
/// A name is cut so that it stays in its room; the table has it whole.
const NAME_CHARS: usize = 28;
const STACK_HEIGHT: u64 = 180;

/// One bar.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: u64,
}

/// Horizontal bars.
pub(super) fn bars(title: &str, bars: &[Bar], say: impl Fn(u64) -> String) -> String {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or_default().max(1);
    if bars.is_empty() {
        return String::new();
    }
    let room = WIDTH - NAMES_WIDTH - NUMBERS_WIDTH;
    let mut marks = String::new();
    for (index, bar) in bars.iter().enumerate() {
        let top = index as u64 * BAR_HEIGHT;
        let length = scaled(bar.value, most, room).max(1);
        let _ = writeln!(
            marks,
            "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text><rect class=\"all\" x=\"{NAMES_WIDTH}\" y=\"{}\" \
             width=\"{length}\" height=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            NAMES_WIDTH - 8,
            top + 15,
            text(&cut(&bar.name)),
            top + 3,
            BAR_HEIGHT - 6,
            NAMES_WIDTH + length + 6,
            top + 15,
            text(&say(bar.value)),
        );
    }
    figure(title, WIDTH, bars.len() as u64 * BAR_HEIGHT, &marks, "")
}

/// Attempts through time, by how they ended.
pub(super) fn stack(bins: &[Bin], zone: &TimeZone) -> String {
    let Some((first, last)) = bins.first().zip(bins.last()) else { return String::new() };
    let total = |bin: &Bin| bin.done + bin.refused + bin.failed + bin.open;
    let most = bins.iter().map(total).max().unwrap_or_default().max(1);
    let count = bins.len() as u64;
    let mut marks = String::new();
    for (index, bin) in bins.iter().enumerate() {
        let left = index as u64 * WIDTH / count;
        let width = ((index as u64 + 1) * WIDTH / count - left).max(2) - 1;
        let mut below = 0;
        for (class, value) in [("done", bin.done), ("open", bin.open), ("refused", bin.refused), ("failed", bin.failed)]
        {
            let (bottom, top) = (scaled(below, most, STACK_HEIGHT), scaled(below + value, most, STACK_HEIGHT));
            below += value;
            if top > bottom {
                let y = STACK_HEIGHT - top;
                let height = top - bottom;
                let _ = write!(
                    marks,
                    "<rect class=\"{class}\" x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
                     <title>{}: {value} {class}</title></rect>",
                    text(&local(bin.time, zone)),
                );
            }
        }
        marks.push('\n');
    }
    let _ = writeln!(
        marks,
        "<line x1=\"0\" y1=\"{STACK_HEIGHT}\" x2=\"{WIDTH}\" y2=\"{STACK_HEIGHT}\"/><text x=\"0\" y=\"{0}\">{1}</text>\
         <text class=\"name\" x=\"{WIDTH}\" y=\"{0}\">{2}</text>",
        STACK_HEIGHT + 16,
        text(&local(first.time, zone)),
        text(&local(last.time, zone)),
    );
    let legend =
        [("done", "done"), ("open", "waiting or open"), ("refused", "refused"), ("failed", "failed or unknown")];
    let legend: String =
        legend.iter().map(|(class, word)| format!("<li><span class=\"{class}\"></span>{word}</li>")).collect();
    let title = format!("Attempts in each of {count} step(s), {most} at most");
    figure(&title, WIDTH, STACK_HEIGHT + 22, &marks, &format!("<ul class=\"legend\">{legend}</ul>"))
}

fn figure(title: &str, width: u64, height: u64, marks: &str, below: &str) -> String {
    let title = text(title);
    format!(
        "<figure>\n<figcaption>{title}</figcaption>\n<svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {width} \
         {height}\">\n{marks}</svg>\n{below}</figure>\n"
    )
}

/// `value` of `most` as a part of `room`.
fn scaled(value: u64, most: u64, room: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(room) / u128::from(most.max(1))).unwrap_or(room)
}

/// The beginning of a name. A wide character takes the room of two.
fn cut(name: &str) -> String {
    let mut room = NAME_CHARS;
    let mut shown = String::new();
    for c in name.chars() {
        let width = if c > '\u{2e80}' { 2 } else { 1 };
        match room.checked_sub(width) {
            Some(left) => room = left,
            None => return shown + "…",
        }
        shown.push(c);
    }
    shown
}
