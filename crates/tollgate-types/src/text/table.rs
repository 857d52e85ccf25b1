//! The texts, each with its code: what happened, and what to do next.

use super::Language;
use crate::Code;

macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $text:ident = $code:ident, $en:literal, $en_hint:literal, $zh:literal, $zh_hint:literal;)+) => {
        /// What the gate says of a call that did not end as `done`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Text {
            $($(#[doc = $doc])+ $text),+
        }

        impl Text {
            /// Every text, in the order of the codes.
            pub const ALL: &[Self] = &[$(Self::$text),+];

            /// The code that it is about.
            pub fn code(self) -> Code {
                match self { $(Self::$text => Code::$code),+ }
            }

            /// The message and the hint, with names of parameters in braces.
            pub fn templates(self, language: Language) -> (&'static str, &'static str) {
                match (self, language) {
                    $((Self::$text, Language::En) => ($en, $en_hint), (Self::$text, Language::Zh) => ($zh, $zh_hint)),+
                }
            }
        }
    };
}

texts! {
    /// No such tool, and none that is like it.
    UnknownTool = UnknownTool, "no tool is named `{name}`", "use one of the tools that are listed",
        "没有名为 `{name}` 的工具", "请使用列表中的工具";
    /// No such tool was offered.
    NotOffered = UnknownTool, "no tool is named `{name}`", "call one of the tools that were offered",
        "没有名为 `{name}` 的工具", "请调用已提供的工具";
    /// No such tool, but some that are like it.
    UnknownToolNear = UnknownTool, "no tool is named `{name}`", "did you mean {near}?",
        "没有名为 `{name}` 的工具", "是否想用 {near}？";
    /// The text of the arguments is no JSON.
    NotJson = InvalidJson, "{what}", "give the arguments as one JSON object, such as {\"path\": \"README.md\"}",
        "参数不是可用的 JSON：{what}", "请把参数写成一个 JSON 对象，例如 {\"path\": \"README.md\"}";
    /// The arguments are JSON, and no object or too large.
    NotAnObject = InvalidArguments, "{what}", "give the arguments as one JSON object, such as {\"path\": \"README.md\"}",
        "参数不可用：{what}", "请把参数写成一个 JSON 对象，例如 {\"path\": \"README.md\"}";
    /// One thing is wrong with the arguments.
    Misfit = InvalidArguments, "the arguments do not fit `{tool}`: {first}", "correct what `details` names and ask again",
        "参数不符合 `{tool}` 的要求：{first}", "请按 `details` 所列更正后再次调用";
    /// Several things are.
    MisfitMany = InvalidArguments, "the arguments do not fit `{tool}`: {first} (and {more} more)",
        "correct what `details` names and ask again",
        "参数不符合 `{tool}` 的要求：{first}（另有 {more} 处）", "请按 `details` 所列更正后再次调用";
    /// An argument that is not the asker's to give.
    Bound = InvalidArguments, "`{argument}` is set already, and is not yours to give", "ask again without `{argument}`",
        "参数 `{argument}` 已被固定，不可再给出", "请去掉 `{argument}` 后再次调用";
    /// What the operator set does not fit.
    BoundMisfit = InvalidArguments, "what is set here for `{tool}` does not fit it",
        "tell the operator: `bind` in the configuration must fit the tool's arguments",
        "为 `{tool}` 固定的参数不符合该工具的要求", "请告知管理员：配置中的 `bind` 须符合工具的参数";
    /// The argument that is the key is none.
    NoKey = InvalidArguments, "{first}", "give it a value of its own and ask again", "{first}", "请为它给出一个值后再次调用";
    /// The key that was given is none.
    BadKey = InvalidArguments, "an idempotency key has 1 to {max} characters, and no control characters",
        "ask again with another key", "幂等键须为 1 至 {max} 个字符，且不含控制字符", "请换一个键再次调用";
    /// The arguments do not say what the call costs.
    CostUnsaid = InvalidArguments, "what the call costs cannot be said: {why}",
        "give it as a number of 0 or more, without an exponent",
        "无法确定此调用的费用：{why}", "请写成不小于 0 的数字，不要用指数形式";
    /// There is nothing to undo.
    NoUndo = InvalidArguments, "attempt {attempt} cannot be undone: {why}", "`tollgate audit show {attempt}` tells what it did",
        "无法撤销 {attempt}：{why}", "`tollgate audit show {attempt}` 可查看它做了什么";
    /// Policy says no.
    Denied = Denied, "{reason}", "do not ask again unchanged: the rule stands until the operator changes it",
        "策略不允许此调用：{reason}", "请勿原样重试：在管理员修改之前，该规则一直有效";
    /// A run in which nothing may be called.
    NoCalls = Denied, "this run allows no calls", "answer with text", "本次运行不允许调用工具", "请直接用文字回答";
    /// A human said no.
    Rejected = ApprovalRejected, "{by} said no", "do not ask for the same again; find another way or tell the user",
        "{by} 拒绝了此调用", "请勿再次提出同样的请求；换一种做法，或告知用户";
    /// And why.
    RejectedWhy = ApprovalRejected, "{by} said no: {why}", "do not ask for the same again; find another way or tell the user",
        "{by} 拒绝了此调用：{why}", "请勿再次提出同样的请求；换一种做法，或告知用户";
    /// Nobody answered.
    Unanswered = ApprovalExpired, "nobody answered in time", "ask again to put the question anew",
        "没有人在期限内答复", "再次调用即可重新提请批准";
    /// The answer was not used.
    Unused = ApprovalExpired, "the yes was not used in time", "ask again to put the question anew",
        "批准未在期限内使用", "再次调用即可重新提请批准";
    /// The yes is gone.
    YesTaken = Conflict, "the approval was used up or taken back at the same moment", "ask again: a human must approve once more",
        "该批准同时被用掉或被收回", "请再次调用：需要重新获得批准";
    /// The result that a human gave is gone.
    ResultTaken = Conflict, "the result that a human gave went to another call at the same moment", "ask again",
        "人工给出的结果同时被另一次调用取走", "请再次调用";
    /// The key stands for another call.
    KeyReused = Conflict, "this idempotency key was used with other arguments", "use a new key for a new call",
        "此幂等键已用于其他参数", "新的调用请使用新的键";
    /// The first call under the key has not ended.
    UnderWay = Conflict, "the first call under this idempotency key (attempt {attempt}) is still under way",
        "ask again later with the same key and arguments",
        "此幂等键下的首次调用（{attempt}）仍在进行", "请稍后用相同的键和参数再次调用";
    /// Another attempt has the undo.
    Undone = Conflict, "attempt {attempt} was undone already, by attempt {by}", "`tollgate audit show {by}` tells how that ended",
        "{attempt} 已由 {by} 撤销", "`tollgate audit show {by}` 可查看其结果";
    /// What would be undone is not known, or not over.
    NotSettled = Conflict, "nobody knows yet how attempt {attempt} ended",
        "find out whether it happened, then `tollgate audit settle {attempt}`",
        "尚不清楚 {attempt} 的结果", "请先查明它是否已经发生，再执行 `tollgate audit settle {attempt}`";
    /// No budget could pay for it.
    BudgetNever = BudgetExceeded, "the call costs {cost} units, and {left} of {units} are left ({spent} spent, {name})",
        "no call may cost so much: ask for less, or tell the user",
        "此调用需 {cost} 个单位，剩余 {left}/{units}（已用 {spent}，{name}）", "任何调用都不得花费这么多：请减少请求，或告知用户";
    /// The session's budget is used up.
    BudgetSession = BudgetExceeded, "the call costs {cost} units, and {left} of {units} are left ({spent} spent, {name})",
        "this session has no more: ask for what costs less, or tell the user",
        "此调用需 {cost} 个单位，剩余 {left}/{units}（已用 {spent}，{name}）", "本会话已无更多额度：请改用花费更少的做法，或告知用户";
    /// The day's budget is used up.
    BudgetDay = BudgetExceeded,
        "the call costs {cost} units, and {left} of {units} are left ({spent} spent, {name}) until {ends}",
        "ask for what costs less, wait for the next day, or tell the user",
        "此调用需 {cost} 个单位，在 {ends} 之前剩余 {left}/{units}（已用 {spent}，{name}）", "请改用花费更少的做法，等到次日，或告知用户";
    /// A turn that asks for too many calls.
    TurnFull = BudgetExceeded, "a turn may ask for {max} calls, and this is one more", "ask again for it in the next turn",
        "一轮最多可请求 {max} 次调用，此调用超出", "请在下一轮再次请求";
    /// Tools call tools too deep.
    TooDeep = BudgetExceeded, "tools that call tools may go {max} calls deep, and this is one deeper",
        "the tools call each other in a circle, or too far: ask for less at once",
        "工具之间的嵌套调用最多 {max} 层，此调用超出一层", "工具互相循环调用或嵌套过深：请减少一次请求的内容";
    /// Calls cannot be counted.
    Uncounted = Unavailable, "calls cannot be counted at the moment", "ask again later, and tell the operator",
        "目前无法统计调用次数", "请稍后重试，并告知管理员";
    /// Too many calls are under way.
    Busy = RateLimited, "{count} calls are under way already", "ask again in {ms} ms",
        "已有 {count} 个调用在进行", "请在 {ms} 毫秒后重试";
    /// A limit is reached.
    TooMany = RateLimited, "too many calls: {count} in {seconds} s, {burst} at once ({name})", "ask again in {ms} ms",
        "调用过于频繁：每 {seconds} 秒 {count} 次，同时 {burst} 次（{name}）", "请在 {ms} 毫秒后重试";
    /// The store keeps as many as it may.
    StoreFull = RateLimited, "{what}", "ask again in a minute, and tell the operator",
        "状态已达上限：{what}", "请一分钟后重试，并告知管理员";
    /// A human must say yes.
    ApprovalRequired = ApprovalRequired, "a human must approve this call: {reason}",
        "once it is approved (`tollgate approvals approve {id}`), ask again with the same arguments",
        "此调用需要人工批准：{reason}", "获批后（`tollgate approvals approve {id}`），请用相同的参数再次调用";
    /// A human is asked for the result.
    InterventionRequired = InterventionRequired, "a human is asked for the result: {reason}",
        "go on with something else; once it is given (`tollgate approvals approve {id} --result …`), ask again with the same arguments",
        "已请人工给出结果：{reason}", "请先处理其他事项；结果给出后（`tollgate approvals approve {id} --result …`），请用相同的参数再次调用";
    /// The result does not fit.
    OutputMisfit = InvalidOutput, "the tool's result does not fit its own output schema: {first}",
        "this is the tool's fault: do not repeat the call; tell the user",
        "工具的结果不符合它自己的输出格式：{first}", "这是工具的问题：请勿重复调用；告知用户";
    /// The result of a look is too large.
    TooLarge = ResultTooLarge, "the result has {size} bytes, more than the {max} that are kept",
        "ask for less: a filter, a range, fewer rows",
        "结果有 {size} 字节，超过可保留的 {max} 字节", "请减少请求的内容：加筛选、限定范围或减少行数";
    /// The result of a change is.
    TooLargeDone = ResultTooLarge, "the result has {size} bytes, more than the {max} that are kept",
        "the call ran: do not repeat it to see its result",
        "结果有 {size} 字节，超过可保留的 {max} 字节", "调用已执行：请勿为查看结果而重复";
    /// The first call under the key was never finished.
    FirstUnknown = OutcomeUnknown, "the first call under this idempotency key (attempt {attempt}) was started and never finished",
        "check whether it happened, then run `tollgate audit settle {attempt}`",
        "此幂等键下的首次调用（{attempt}）已开始但未结束", "请查明它是否已经发生，再执行 `tollgate audit settle {attempt}`";
    /// The end could not be recorded.
    EndUnrecorded = OutcomeUnknown, "the call ran, but its end could not be recorded",
        "check whether it happened before asking again", "调用已执行，但其结果无法记录", "重试之前，请先查明它是否已经发生";
    /// The result could not be stored.
    ResultUnstored = OutcomeUnknown, "the call ran, but its result could not be stored",
        "check whether it happened before asking again", "调用已执行，但其结果无法保存", "重试之前，请先查明它是否已经发生";
    /// The result could not be kept.
    ResultUnkept = OutcomeUnknown, "the call ran, but its result could not be kept",
        "check what it did before asking again", "调用已执行，但其结果无法保留", "重试之前，请先查明它做了什么";
    /// The gate was stopped.
    Stopped = OutcomeUnknown, "the gate was stopped while the call was under way",
        "the ledger says how far it came: `tollgate audit tail`",
        "调用进行中，系统被停止", "账本记录了它进行到哪一步：`tollgate audit tail`";
    /// The record cannot be written.
    Unrecorded = AuditUnavailable, "the record cannot be written, so nothing is done", "tell the operator: run `tollgate audit verify`",
        "无法写入记录，因此未执行", "请告知管理员：运行 `tollgate audit verify`";
    /// The record of a look cannot be.
    Withheld = AuditUnavailable, "the record cannot be written, so its result is withheld", "tell the operator: run `tollgate audit verify`",
        "无法写入记录，因此不返回结果", "请告知管理员：运行 `tollgate audit verify`";
    /// The state cannot be used.
    NoState = AuditUnavailable, "the state cannot be used, so nothing is done", "check the data folder's disk, then ask again",
        "无法使用状态数据，因此未执行", "请检查数据目录所在的磁盘，然后再试";
    /// What was held stays held.
    StillHeld = AuditUnavailable, "nothing was done, but what it costs is still held", "tell the operator, then ask again",
        "未执行任何操作，但其费用仍被占用", "请告知管理员，然后再试";
    /// The tool broke off.
    ToolPanicked = Internal, "the tool broke off with a panic", "do not repeat the call; tell the user",
        "工具意外中断", "请勿重复调用；告知用户";
    /// And may have changed something.
    ToolPanickedHalfway = Internal, "the tool broke off with a panic", "it may have happened in part: check before asking again",
        "工具意外中断", "它可能已部分发生：请先查明，再决定是否重试";
    /// The gate broke off.
    GatePanicked = Internal, "the gate broke off with a panic", "tell the operator; do not repeat it at once",
        "系统意外中断", "请告知管理员；不要立即重试";
    /// Something that cannot be.
    Amiss = Internal, "{what}", "tell the operator; do not repeat it at once", "内部错误：{what}", "请告知管理员；不要立即重试";
}
