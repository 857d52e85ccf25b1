//! Which names say that what they name is a secret. A name is folded first, so that neither spelling (`apiKey`,
//! `API-KEY`) nor disguise (full-width letters, invisible characters, look-alikes from other alphabets) matters; then
//! whole words decide, and the words after them: a `token_count` is no token.

/// Which rule a name falls under, if what it names is a secret.
pub(super) fn rule(name: &str) -> Option<&'static str> {
    let folded = fold(name);
    let mut found = None;
    let mut previous = "";
    let mut pair = String::new();
    for word in folded.split_ascii_whitespace() {
        pair.clear();
        pair.push_str(previous);
        pair.push_str(word);
        if let Some(rule) = secret_word(&pair).or_else(|| secret_word(word)) {
            found = (!(word == "token" && counts_or_pages(previous))).then_some(rule);
        } else if found.is_some() && ABOUT.split(' ').any(|about| about == word) {
            found = None;
        }
        previous = word;
    }
    found
}

/// Which rule a key of a tree falls under. A path is none: `node_modules/cookie` names a package.
pub(super) fn key_rule(key: &str, is_tree: bool) -> Option<&'static str> {
    if is_tree && key.contains('/') { None } else { rule(key) }
}

/// Which rule the last part of a dotted name falls under: `datasource.password` is one, `credentials.owner` is none.
pub(super) fn path_rule(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.') {
        Some((parents, "value")) => path_rule(parents),
        Some((_, last)) => rule(last),
        None => rule(path),
    }
}

/// Which rule two neighbouring words of a text fall under, when only both together name a secret: `API key`.
pub(super) fn pair_rule(first: &str, second: &str) -> Option<&'static str> {
    if second.is_empty() {
        return None;
    }
    let (mut folded, second) = (fold(first), fold(second));
    if matches!(second.trim(), "is" | "was" | "value") {
        return rule(first);
    }
    folded.push_str(&second);
    folded.retain(|c| c != ' ');
    secret_word(&folded)
}

/// Whether any word of a name is a secret's: `cancellation_token`, also where [`rule`] sees none.
pub(super) fn mentions_secret(name: &str) -> bool {
    let folded = fold(name);
    let mut previous = "";
    folded.split_ascii_whitespace().any(|word| {
        let pair = format!("{previous}{word}");
        previous = word;
        secret_word(word).or_else(|| secret_word(&pair)).is_some()
    })
}

/// `pass` names a secret beside a user, and counts passed tests elsewhere.
pub(super) fn is_bare_pass(name: &str) -> bool {
    name.len() <= 16 && fold(name).trim() == "pass"
}

/// A word, or two written as one, that names a secret.
fn secret_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "pwd" | "passcode" | "passcodes" | "passphrases" | "passwords" | "dbpass" | "smtppass" | "userpass"
        | "authpass" | "mailpass" | "emailpass" | "mysqlpass" | "pgpass" | "redispass" | "rootpass" | "adminpass"
        | "proxypass" | "ftppass" | "httppass" | "loginpass" | "databasepass" => "password",
        _ if ["password", "passwd", "passphrase"].iter().any(|stem| word.ends_with(stem)) => "password",
        "口令" => "password",
        _ if word.ends_with("密码") => "password",
        "令牌" | "访问令牌" | "刷新令牌" => "token",
        "密钥" | "私钥" | "访问密钥" => "secret_key",
        "验证码" | "动态码" => "otp",
        "银行卡号" | "信用卡号" | "cardno" | "cardnum" | "bankcard" | "debitcard" => "card_number",
        "secret" | "secrets" | "secretid" | "clientsecret" | "webhooksecret" | "sharedsecret" | "mnemonic"
        | "seedphrase" | "recoveryphrase" | "codeverifier" => "secret",
        "secretkey" | "secretaccesskey" | "signingkey" | "encryptionkey" | "decryptionkey" | "masterkey"
        | "accesskey" | "accesskeys" | "accountkey" | "sharedkey" | "storagekey" | "subscriptionkey" | "servicekey"
        | "hmackey" | "accesssignature" => "secret_key",
        "privatekey" | "privatekeys" | "privkey" => "private_key",
        "apikey" | "apikeys" => "api_key",
        "token" | "jwt" | "bearer" | "accesstoken" | "accesstokens" | "refreshtoken" | "refreshtokens" | "idtoken"
        | "authtoken" | "authtokens" | "bearertoken" | "apitoken" | "apitokens" | "csrftoken" | "xsrftoken"
        | "usertoken" | "securitytoken" => "token",
        "authorization" | "proxyauthorization" => "authorization",
        "authorizationcode" => "authorization_code",
        "cookie" | "cookies" | "setcookie" => "cookie",
        "sessionid" | "sessionids" | "sessiontoken" | "sessionkey" | "sessid" | "phpsessid" | "jsessionid" | "sid" => {
            "session"
        }
        "credential" | "credentials" | "cred" | "creds" => "credentials",
        "connectionstring" | "connstring" | "connstr" => "connection_string",
        "otp" | "totp" | "mfacode" | "smscode" | "otpcode" | "verificationcode" | "recoverycode" | "recoverycodes"
        | "backupcode" | "backupcodes" => "otp",
        "pin" | "pincode" | "pinnumber" => "pin",
        "cvv" | "cvc" | "cvvcode" | "cvccode" => "cvv",
        "cardnumber" | "creditcard" | "ccnumber" | "creditcardnumber" => "card_number",
        _ => return None,
    })
}

/// Before `token`: pages of a list, pieces of a text.
fn counts_or_pages(word: &str) -> bool {
    matches!(
        word,
        "page"
            | "next"
            | "previous"
            | "prev"
            | "continuation"
            | "cursor"
            | "progress"
            | "cancellation"
            | "sync"
            | "max"
            | "min"
            | "per"
            | "input"
            | "output"
            | "prompt"
            | "completion"
            | "total"
            | "cached"
            | "reasoning"
            | "eos"
            | "bos"
            | "pad"
            | "unk"
            | "sep"
            | "cls"
            | "mask"
            | "special"
            | "stop"
            | "start"
            | "end"
    )
}

/// After a secret's name: something about it, not the secret itself.
const ABOUT: &str = "count counts counter limit limits usage used budget total remaining rate cost price bucket length len size \
    min max minimum maximum policy policies rule rules type types kind name names id ids url uri endpoint path \
    file filename dir folder field fields label placeholder hint help prompt title description icon page screen \
    form input button error errors message status state strength score format pattern regex schema version \
    manager provider service server servers issuer index position offset ref reference env arn rotation reset \
    consent domain banner settings mode method methods algorithm alg scheme scope scopes required optional \
    enabled disabled present exists set valid verified expired expires expiry expiration revoked changed updated \
    created at ttl age attempts retries timeout seconds secs ms days hours minutes date time timestamp prefix \
    suffix last fingerprint layout \
    details";

/// Lower-case Latin words between spaces.
fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len() + 8);
    let mut chars = name.chars().filter(|c| !is_invisible(*c)).map(plain).peekable();
    let mut previous = ' ';
    while let Some(c) = chars.next() {
        let after_lower = previous.is_lowercase();
        let ends_acronym = previous.is_uppercase() && chars.peek().is_some_and(|next| next.is_lowercase());
        if !c.is_alphabetic() {
            folded.push(' ');
        } else {
            if c.is_uppercase() && (after_lower || ends_acronym) {
                folded.push(' ');
            }
            match c.is_ascii() {
                true => folded.push(c.to_ascii_lowercase()),
                false => folded.extend(c.to_lowercase()),
            }
        }
        previous = c;
    }
    folded
}

/// Soft hyphen, combining marks, zero-width and direction marks.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// The Latin letter that a full-width, Cyrillic or Greek one looks like.
fn plain(c: char) -> char {
    match c {
        _ if c.is_ascii() => c,
        '\u{ff01}'..='\u{ff5e}' => u32::from(c).checked_sub(0xfee0).and_then(char::from_u32).unwrap_or(c),
        'а' | 'α' => 'a',
        'ь' | 'в' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ε' | 'є' => 'e',
        'ɡ' => 'g',
        'һ' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'м' => 'm',
        'п' | 'η' => 'n',
        'о' | 'ο' | 'σ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' | 'ſ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' | 'ѡ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'А' | 'Α' => 'A',
        'В' | 'Β' => 'B',
        'С' | 'Ϲ' => 'C',
        'Е' | 'Ε' => 'E',
        'Н' | 'Η' => 'H',
        'І' | 'Ι' => 'I',
        'Ј' => 'J',
        'К' | 'Κ' => 'K',
        'М' | 'Μ' => 'M',
        'Ν' => 'N',
        'О' | 'Ο' => 'O',
        'Р' | 'Ρ' => 'P',
        'Ѕ' => 'S',
        'Т' | 'Τ' => 'T',
        'Х' | 'Χ' => 'X',
        'У' | 'Υ' => 'Y',
        'Ζ' => 'Z',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::{pair_rule, rule};

    #[test]
    fn a_name_says_what_it_names() {
        let secret = "password PASSWORD passWord pass_word user-password DB_PASSWORD dbpassword passwd pwd passphrase secret \
            client_secret clientSecret webhook_secret token access_token accessToken X-Auth-Token _authToken refreshToken \
            id_token api_key apiKey API-KEY APIKey apikey x-api-key authorization Proxy-Authorization cookie Set-Cookie \
            session_id sessionId JSESSIONID session_token private_key privateKey credentials otp totp pin cvv cvv2 \
            card_number cardNumber authorization_code secret_access_key SecretAccessKey AccountKey password_hash \
            password1 old_password new-password token_value spring.datasource.password ｐａｓｓｗｏｒｄ p\u{430}ssword \
            pass\u{200b}word t\u{3bf}ken \u{421}ookie API_KEY_PROD";
        for name in secret.split_whitespace() {
            assert!(rule(name).is_some(), "{name}");
        }
        let harmless = "max_tokens tokens token_count tokenCount tokens_used total_tokens token_type token_endpoint next_page_token \
            pageToken nextToken progressToken eos_token key primary_key public_key cache_key author authority \
            authorization_url compass bypass pass passed secretary cookie_policy cookie_consent code session session_count \
            password_policy password_length passwordStrength password_changed_at secret_name api_key_id access_key_id \
            token_bucket tokenizer keyboard opinion pinned spinning monkey hotpot discard passenger credentials_file \
            private_key_path idempotency_key key_id client_id username user";
        for name in harmless.split_whitespace() {
            assert_eq!(rule(name), None, "{name}");
        }
        assert_eq!(pair_rule("API", "key"), Some("api_key"));
        assert_eq!(pair_rule("password", "is"), Some("password"));
        assert_eq!(pair_rule("password", "policy"), None);
        assert_eq!(pair_rule("the", "key"), None);
    }
}
