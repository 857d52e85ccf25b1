//! What each code means and what to do next, where nobody says it better.

use crate::{Code, Language};

/// What the code means, before the words of a tool.
pub(super) fn lead(code: Code) -> &'static str {
    match code {
        Code::UnknownTool | Code::Forbidden => "没有这个工具",
        Code::InvalidJson => "参数不是可用的 JSON",
        Code::InvalidArguments => "参数不符合要求",
        Code::Denied => "策略不允许此调用",
        Code::ApprovalRejected => "审批人拒绝了此调用",
        Code::ApprovalExpired => "审批已过期",
        Code::Conflict => "与另一次调用冲突",
        Code::NoProgress => "相同的调用反复得到相同的结果",
        Code::BudgetExceeded => "预算已用完",
        Code::Unavailable => "工具暂不可用",
        Code::RateLimited => "调用过于频繁",
        Code::ApprovalRequired => "需要人工批准",
        Code::InterventionRequired => "需要人工处理",
        Code::Timeout => "工具未在规定时间内完成",
        Code::UpstreamError => "工具所依赖的服务器出错",
        Code::ToolError => "工具报告失败",
        Code::InvalidOutput => "工具的结果不符合它自己的输出格式",
        Code::ResultTooLarge => "工具的结果过大",
        Code::Cancelled => "调用已取消",
        Code::OutcomeUnknown => "调用已开始，但结果未知",
        Code::AuditUnavailable => "无法写入记录，因此未执行",
        Code::SandboxUnavailable => "此处无法提供该工具所需的隔离",
        Code::Internal => "Tollgate 内部错误",
    }
}

/// What must be said of a change that did not end well.
pub const MAY_HAVE_HAPPENED: &str = "it may have happened in part: check before asking again";

/// Advice that executors give in these very words.
const GIVEN: [(&str, &str); 7] = [
    (MAY_HAVE_HAPPENED, "它可能已经部分执行：请先查明情况，再决定是否重试"),
    ("ask again", "请再次调用"),
    ("ask again later", "请稍后再试"),
    ("ask it for less", "请减少请求的内容"),
    ("the fault is the server's; ask again later", "错在服务器：请稍后再试"),
    ("the server asks for fewer calls; ask again later", "服务器要求减少调用：请稍后再试"),
    ("ask again in a while", "请过一会儿再试"),
];

/// Advice of an executor in Chinese, where it is known.
pub(super) fn given(hint: &str) -> Option<&'static str> {
    GIVEN.iter().find(|(en, _)| *en == hint).map(|(_, zh)| *zh)
}

/// What to do next.
pub(super) fn step(code: Code, language: Language) -> &'static str {
    let (en, zh) = steps(code);
    match language {
        Language::En => en,
        Language::Zh => zh,
    }
}

fn steps(code: Code) -> (&'static str, &'static str) {
    match code {
        Code::UnknownTool | Code::Forbidden => ("use one of the tools that are listed", "请使用列表中的工具"),
        Code::InvalidJson => ("give the arguments as one JSON object", "请把参数写成一个 JSON 对象"),
        Code::InvalidArguments => ("correct the arguments and ask again", "请更正参数后再次调用"),
        Code::Denied => {
            ("do not ask again unchanged; find another way or tell the user", "请勿原样重试；换一种做法，或告知用户")
        }
        Code::ApprovalRejected => ("find another way or tell the user", "请换一种做法，或告知用户"),
        Code::ApprovalExpired => ("ask again to put the question anew", "再次调用即可重新提请批准"),
        Code::Conflict => ("look at how things are before asking again", "请先查看当前状态，再决定是否重试"),
        Code::NoProgress => {
            ("do something else, or tell the user what is missing", "请改用别的做法，或告诉用户缺少什么")
        }
        Code::BudgetExceeded => ("finish with what you have, or tell the user", "请用现有结果完成任务，或告知用户"),
        Code::Unavailable => ("ask again later, or use another tool", "请稍后重试，或改用其他工具"),
        Code::RateLimited => ("wait, then ask again", "请稍候再试"),
        Code::ApprovalRequired => {
            ("ask again with the same arguments once it is approved", "获批后请用相同的参数再次调用")
        }
        Code::InterventionRequired => (
            "go on with something else, and ask again with the same arguments later",
            "请先处理其他事项，稍后用相同的参数再次调用",
        ),
        Code::Timeout => ("ask for less at once, or ask again later", "请减少一次请求的内容，或稍后重试"),
        Code::UpstreamError => ("ask again later, or use another tool", "请稍后重试，或改用其他工具"),
        Code::ToolError => ("read what the tool says before asking again", "请先阅读工具的说明，再决定是否重试"),
        Code::InvalidOutput => ("do not repeat the call; tell the user", "请勿重复调用；告知用户"),
        Code::ResultTooLarge => ("ask for less", "请减少请求的内容"),
        Code::Cancelled => ("ask again if it is still needed", "如仍需要，请再次调用"),
        Code::OutcomeUnknown => ("check whether it happened before asking again", "重试之前，请先查明它是否已经发生"),
        Code::AuditUnavailable => {
            ("nothing was done: tell the operator, then ask again", "未执行任何操作：请告知管理员，然后再试")
        }
        Code::SandboxUnavailable => ("use another tool, and tell the operator", "请改用其他工具，并告知管理员"),
        Code::Internal => ("tell the operator; do not repeat it at once", "请告知管理员；不要立即重试"),
    }
}
