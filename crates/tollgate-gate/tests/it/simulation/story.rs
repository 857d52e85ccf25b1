//! A story: what is done, in which order, made from a seed.

use std::fmt;

/// The tools of the house: one that reads, one that may happen twice, one that may not, one that wants a yes.
pub(crate) const TOOLS: [&str; 4] = ["look", "set", "note", "pay"];

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers from the same seed, whatever the version of a library.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn place(&mut self) -> usize {
        usize::from(self.next().to_le_bytes()[0])
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Who asks for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) subject: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) key: Option<u64>,
    pub(crate) item: u64,
}

impl Asked {
    /// Whether both are one call to whoever keeps keys.
    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.key.is_some() && (self.subject, self.tool, self.key) == (other.subject, other.tool, other.key)
    }
}

/// What the tool does with the next call that reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Fails,
    /// It fails before its effect, and says so.
    NothingHappened,
    Panics,
}

/// Where the tool waits until the teller lets it go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Nowhere,
    BeforeItsEffect,
    AfterItsEffect,
}

/// One step. `process` is one of two; other numbers choose among what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Call {
        process: usize,
        asked: Asked,
        hold: Hold,
        ending: Ending,
    },
    /// A tool that waits goes on to the end.
    Release {
        process: usize,
        which: usize,
    },
    /// The asker leaves.
    Leave {
        process: usize,
        which: usize,
    },
    Pass {
        ms: u64,
    },
    Answer {
        process: usize,
        which: usize,
        is_yes: bool,
    },
    Settle {
        process: usize,
        which: usize,
    },
    Stop {
        process: usize,
    },
    Kill {
        process: usize,
        torn_bytes: usize,
    },
    /// The process dies after so many steps of its own.
    KillAfter {
        process: usize,
        reads: u32,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    /// Half of the stories are exact, the others have more places to die at.
    pub(crate) counts_both: bool,
    /// So small that some stories fill several.
    pub(crate) segment_bytes_max: u64,
    pub(crate) steps: Vec<Step>,
}

impl Story {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let segment_bytes_max = if dice.one_in(3) { 3_000 } else { 1 << 20 };
        let count = 6 + dice.below(16);
        let steps = (0..count).map(|_| step(&mut dice)).collect();
        Self { seed, counts_both: seed % 2 == 1, segment_bytes_max, steps }
    }
}

fn asked(dice: &mut Dice) -> Asked {
    Asked {
        subject: if dice.one_in(3) { "eve" } else { "ada" },
        tool: TOOLS[[0, 1, 2, 2, 2, 3, 3, 3][dice.place() % 8]],
        key: (!dice.one_in(4)).then(|| dice.below(2)),
        // Mostly the same arguments.
        item: dice.below(6) / 5,
    }
}

fn step(dice: &mut Dice) -> Step {
    let (process, which) = (usize::from(dice.one_in(3)), dice.place());
    match dice.below(20) {
        0..8 => {
            let hold = match dice.below(5) {
                0 => Hold::BeforeItsEffect,
                1 => Hold::AfterItsEffect,
                _ => Hold::Nowhere,
            };
            let ending = match dice.below(10) {
                0 => Ending::Fails,
                1 => Ending::NothingHappened,
                2 => Ending::Panics,
                _ => Ending::Done,
            };
            Step::Call { process, asked: asked(dice), hold, ending }
        }
        8 | 9 => Step::Release { process, which },
        10 => Step::Leave { process, which },
        11 => Step::Pass { ms: [300, 1_000, 31_000, 90_000_000][dice.place() % 4] },
        12..15 => Step::Answer { process, which, is_yes: !dice.one_in(5) },
        15 => Step::Settle { process, which },
        16 => Step::Stop { process },
        17 => Step::Kill { process, torn_bytes: if dice.one_in(2) { dice.place() } else { 0 } },
        _ => Step::KillAfter { process, reads: u32::from(dice.next().to_le_bytes()[0] % 40) },
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().enumerate().try_for_each(|(place, step)| writeln!(f, "  {place:2} {step:?}"))
    }
}
