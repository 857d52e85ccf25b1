//! The loop: the model answers, its calls pass the door side by side, their results go back in call order, until it
//! answers with text or a limit is reached. Whatever happens, every call in the history has exactly one result.

mod calls;
mod compact;
mod event;
mod kept;
mod repetition;
mod round;
mod spent;
mod strategy;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tollgate_types::{Caller, CancellationToken, Clock, Door, ErrorObject, Risk, Said, Text, ToolDefinition, limits};
use tollgate_wire::lower::Change;
use tollgate_wire::{History, Lowered, Lowerings, Message, ModelCall, ToolChoice};

pub use compact::{Compacted, Compaction, Context};
pub use event::{Answer, Difference, Event, OpenQuestion, RunError};
pub use spent::{Cost, Exceeded, Price, RunBudget, Spent, ToolTally};
pub use strategy::{Mark, React, Round, STRATEGIES, Search, Strategy, strategy};

use crate::hosted::Hosted;
use crate::model::{Model, ModelError};
use crate::record::{Line, Recorder};
use crate::session::Session;
use crate::tokens::Tokens;
use round::Scale;

/// How an agent works.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the model is told to be.
    pub system: Option<String>,
    /// Rounds of one prompt.
    pub rounds_max: u32,
    /// Calls of one round that run at once.
    pub calls_at_once_max: usize,
    /// Whether the model may call. A forced choice holds for the first round, or it would never answer.
    pub tool_choice: ToolChoice,
    /// The tools to offer, of those that the caller may use; all of them if unset.
    pub tools: Option<Vec<String>>,
    /// What one prompt may spend beside its rounds.
    pub budget: RunBudget,
    /// What the model's tokens cost.
    pub price: Option<Price>,
    /// How much the model can be sent; all of the conversation if unset.
    pub context: Option<Context>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            system: None,
            rounds_max: limits::ROUNDS_MAX,
            calls_at_once_max: limits::CALLS_AT_ONCE_MAX,
            tool_choice: ToolChoice::Auto,
            tools: None,
            budget: RunBudget::default(),
            price: None,
            context: None,
        }
    }
}

/// A model, a door, and the conversation between them.
pub struct Agent {
    pub(crate) door: Arc<dyn Door>,
    pub(crate) caller: Caller,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: Options,
    lowerings: Lowerings,
    strategy: Arc<dyn Strategy>,
    clock: Option<Arc<dyn Clock>>,
    history: History,
    recorder: Option<Recorder>,
    session: Option<Session>,
    tokens: Tokens,
    scale: Scale,
    /// What was said last of what is left out.
    compacted: Option<Compacted>,
    spent: Spent,
    /// When the run began, by the clock that never goes back.
    begun: Option<Duration>,
    /// Whether what is here of the session may differ from what is stored.
    is_stale: bool,
    /// Whether tools answered in the session before this process took it up.
    is_resumed: bool,
}

/// What one prompt may use.
struct Offer {
    lowered: Lowered,
    names: Vec<String>,
    tools: HashMap<String, Arc<ToolDefinition>>,
    /// Tools that the provider of the model may run.
    hosted: Vec<Arc<ToolDefinition>>,
    hosted_wire: Vec<Box<RawValue>>,
    /// Tools of the door that the options leave out. A model may know their names; they must not run.
    withheld: HashSet<String>,
}

impl Offer {
    /// Whether the tool changes nothing, so that its calls may happen again.
    fn reads(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| tool.risk == Risk::Read)
    }
}

impl Agent {
    /// An agent with an empty conversation.
    pub fn new(door: Arc<dyn Door>, caller: Caller, model: Arc<dyn Model>, options: Options) -> Self {
        let history = conversation(&options, Vec::new());
        let tokens = Tokens::of_model(model.name());
        Self {
            door,
            caller,
            model,
            options,
            lowerings: Lowerings::default(),
            strategy: Arc::new(React),
            clock: None,
            history,
            recorder: None,
            session: None,
            tokens,
            scale: Scale::default(),
            compacted: None,
            spent: Spent::default(),
            begun: None,
            is_stale: false,
            is_resumed: false,
        }
    }

    /// The same agent with a recording of what it does.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// The same agent, looking for answers in this way.
    #[must_use]
    pub fn with_strategy(mut self, strategy: Arc<dyn Strategy>) -> Self {
        self.strategy = strategy;
        self
    }

    /// The same agent, which says how long its runs took.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The conversation so far.
    pub fn history(&self) -> &[Message] {
        self.history.messages()
    }

    /// Asks, and works until there is an answer. The conversation goes on from where it was.
    ///
    /// # Errors
    /// When the model does not answer, a limit is reached, the same calls bring the same results again and again, the
    /// recording or the session cannot be written, a call of a session waits for a human, or `cancellation` fires. The
    /// conversation is sound afterwards; a prompt to which nothing came back is taken out of it, but of a session only when
    /// the next one comes.
    pub async fn ask(
        &mut self,
        prompt: &str,
        cancellation: &CancellationToken,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        self.run(Some(prompt), cancellation, on_event).await
    }

    /// Goes on with a session where its answers were missing: asks the door for the calls that have no outcome, then the
    /// model. Where none is missing, the answer that is there is said again.
    ///
    /// # Errors
    /// Those of [`Agent::ask`], and when there is no session or nothing was said in it.
    pub async fn resume(
        &mut self,
        cancellation: &CancellationToken,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        self.run(None, cancellation, on_event).await
    }

    async fn run(
        &mut self,
        prompt: Option<&str>,
        cancellation: &CancellationToken,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        // A run whose future was dropped leaves calls without results, or a prompt without a reply.
        self.settle();
        self.spent = Spent::default();
        self.begun = self.clock.as_ref().map(|clock| clock.monotonic());
        let result = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(RunError::Cancelled),
            result = self.work(prompt, on_event) => result,
        };
        match &result {
            Ok(_) => self.is_stale = false,
            Err(error) => {
                self.settle();
                on_event(&Event::Spent(self.spent()));
                on_event(&match error {
                    RunError::Waiting { session, waiting } => {
                        Event::Paused { session: session.clone(), waiting: waiting.clone() }
                    }
                    _ => Event::Error { error: ErrorObject::from(error) },
                });
            }
        }
        result
    }

    /// What people wrote: the operator in the system's message, the user in the prompts. A reply of the model is
    /// neither.
    fn said(&self) -> Said {
        let mut said = Said { is_resumed: self.is_resumed, ..Said::default() };
        for message in self.history.messages() {
            match message {
                Message::System(text) => said.operator.push(text.clone()),
                Message::User(content) => said.user.push(content.text().into_owned()),
                Message::Assistant { .. } | Message::Tool { .. } => {}
            }
        }
        said
    }

    /// Makes the conversation sound, and takes a prompt to which nothing came back out of it. What a session holds is
    /// read again instead, before it goes on.
    fn settle(&mut self) {
        if self.session.is_some() {
            return;
        }
        self.history.repair();
        if let [before @ .., Message::User(_)] = self.history.messages() {
            let length = before.len();
            self.history.truncate(length);
        }
    }

    async fn work(
        &mut self,
        prompt: Option<&str>,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Answer, RunError> {
        let end = self.options.budget.time_max.map(|time| Box::pin(tokio::time::sleep(time)));
        self.refresh().await?;
        let offer = self.offer().await?;
        if prompt.is_none()
            && let Some(answer) = self.take_up(&offer, on_event)?
        {
            return Ok(answer);
        }
        self.complete(&offer, on_event).await?;
        if let Some(prompt) = prompt {
            self.begin(prompt, &offer, on_event).await?;
        }
        let mut tool_choice = self.options.tool_choice.clone();
        if !matches!(self.history.messages().last(), Some(Message::User(_))) {
            tool_choice = unforced(tool_choice);
        }
        let strategy = Arc::clone(&self.strategy);
        let mut search = Search { agent: self, offer: &offer, on_event, tool_choice, differences: Vec::new(), end };
        let turn = strategy.search(&mut search).await?;
        let Search { agent, differences, on_event, .. } = search;
        agent.record(|| Line::Answer { text: turn.text.clone() })?;
        let spent = agent.spent();
        on_event(&Event::Spent(spent.clone()));
        let answer =
            Answer { text: turn.text, rounds: spent.rounds, finish: turn.finish, usage: spent.usage, differences };
        on_event(&answer.event());
        Ok(answer)
    }

    /// Finds what may be offered.
    async fn offer(&self) -> Result<Offer, RunError> {
        let listed = self.door.list(&self.caller).await;
        let is_wanted =
            |tool: &Arc<ToolDefinition>| self.options.tools.as_ref().is_none_or(|names| names.contains(&tool.name));
        let (offered, withheld): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_wanted);
        let named = match &self.options.tool_choice {
            ToolChoice::Named(name) => std::slice::from_ref(name),
            ToolChoice::Allowed { tools, .. } => tools.as_slice(),
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => &[],
        };
        // A tool of the provider is not the door's to list.
        let wanted = self.options.tools.iter().flatten().filter(|name| !name.starts_with(Hosted::PREFIX)).chain(named);
        let missing: Vec<String> =
            wanted.filter(|name| !offered.iter().any(|tool| tool.name == **name)).cloned().collect();
        if !missing.is_empty() {
            return Err(RunError::UnknownTools { names: missing });
        }
        let hosted = self.permitted();
        let lowered = self
            .lowerings
            .lower(&offered, &self.model.target())
            .map_err(|e| ModelError::Config { reason: e.to_string() })?;
        for note in lowered.notes() {
            match note.change {
                Change::LeftOut => tracing::warn!("{note}"),
                Change::NotStrict | Change::Loosened => tracing::debug!("{note}"),
            }
        }
        Ok(Offer {
            lowered,
            hosted_wire: hosted.iter().map(|tool| tool.wire.clone()).collect(),
            hosted: hosted.into_iter().map(|tool| tool.definition).collect(),
            names: offered.iter().map(|tool| tool.name.clone()).collect(),
            tools: offered.into_iter().map(|tool| (tool.name.clone(), tool)).collect(),
            withheld: withheld.into_iter().map(|tool| tool.name.clone()).collect(),
        })
    }

    /// Takes a prompt into the conversation, and says that the run begins.
    async fn begin(
        &mut self,
        prompt: &str,
        offer: &Offer,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<(), RunError> {
        let (prompt, model, tools) = (prompt.to_owned(), self.model.name().to_owned(), offer.names.clone());
        let strategy = self.strategy.name().to_owned();
        let line = Line::Run { prompt: prompt.clone(), model: model.clone(), tools: tools.clone(), strategy };
        self.keep_prompt(&line).await?;
        self.record(|| line)?;
        let session = self.session.as_ref().map(|session| session.meta().id.clone());
        on_event(&Event::RunStarted { prompt: prompt.clone(), model, tools, session });
        self.history.push(Message::user(prompt));
        Ok(())
    }

    fn record(&mut self, line: impl FnOnce() -> Line) -> Result<(), RunError> {
        match &mut self.recorder {
            Some(recorder) => Ok(recorder.write(&line())?),
            None => Ok(()),
        }
    }
}

/// The conversation with what the model is told to be.
fn conversation(options: &Options, messages: Vec<Message>) -> History {
    let system = options.system.iter().map(|system| Message::System(system.clone()));
    History::from(system.chain(messages).collect::<Vec<_>>())
}

/// A forced choice holds until the model has called.
fn unforced(choice: ToolChoice) -> ToolChoice {
    match choice {
        ToolChoice::Required | ToolChoice::Named(_) => ToolChoice::Auto,
        ToolChoice::Allowed { required: true, tools } => ToolChoice::Allowed { required: false, tools },
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { .. } => choice,
    }
}

/// Why a call does not go to the door at all.
fn refusal(position: usize, call: &ModelCall, choice: &ToolChoice, withheld: &HashSet<String>) -> Option<ErrorObject> {
    if let Some(refusal) = &call.refusal {
        return Some(refusal.clone());
    }
    if *choice == ToolChoice::None {
        // Not every server heeds `none`.
        return Some(Text::NoCalls.error(&[]));
    }
    if position >= limits::CALLS_PER_TURN_MAX {
        return Some(Text::TurnFull.error(&[("max", &limits::CALLS_PER_TURN_MAX)]));
    }
    if let ToolChoice::Allowed { tools, .. } = choice
        && !tools.contains(&call.name)
    {
        return Some(Text::NotOffered.error(&[("name", &call.name)]));
    }
    withheld.contains(&call.name).then(|| Text::NotOffered.error(&[("name", &call.name)]))
}
