//! What a service said, in words for people: its own code and message, without the rest of its page.

use object_store::Error;

/// Characters of what a service said.
const MOST: usize = 300;

/// Why something could not be done.
pub(super) fn reason(error: &Error) -> String {
    let deepest = deepest(error);
    let said = page(&deepest).unwrap_or_else(|| cut(&deepest));
    match error {
        _ if is_no_bucket(error) => format!("there is no such bucket ({said})"),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            format!(
                "the bucket refuses that to this key ({said}); look at the key and at what it may do"
            )
        }
        _ => said,
    }
}

/// Whether the bucket itself is not there.
pub(super) fn is_no_bucket(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. })
        && page(&deepest(error)).is_none_or(|said| said.starts_with("NoSuchBucket"))
}

/// What the innermost cause says: those around it only repeat the address.
fn deepest(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Code and message in a page of S3's, which is XML.
fn page(said: &str) -> Option<String> {
    let inner = |name: &str| {
        let (_, rest) = said.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim())
    };
    let code = inner("Code")?;
    let said = match inner("Message") {
        Some(message) if !message.is_empty() => format!("{code}: {message}"),
        _ => code.to_owned(),
    };
    Some(cut(&said))
}

fn cut(said: &str) -> String {
    let plain = said.trim().trim_end_matches(['.', ':', ' ']);
    let mut short: String = plain.chars().take(MOST).collect();
    if short.len() < plain.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn because(said: &str) -> Box<dyn std::error::Error + Send + Sync> {
        said.to_owned().into()
    }

    #[test]
    fn of_a_page_code_and_message_are_told() {
        let page = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error>\
            <Code>SignatureDoesNotMatch</Code><Message>They do not match.</Message>\
            <AWSAccessKeyId>AKIA1</AWSAccessKeyId><StringToSign>all of it</StringToSign></Error>";
        let path = String::from("a");
        let source = because(page);
        assert_eq!(
            reason(&Error::PermissionDenied { path, source }),
            "the bucket refuses that to this key (SignatureDoesNotMatch: They do not match); \
             look at the key and at what it may do"
        );
    }

    #[test]
    fn a_bucket_that_is_not_there_is_another_thing_than_an_object() {
        let gone = |said: &str| Error::NotFound {
            path: String::from("a"),
            source: because(said),
        };
        assert!(is_no_bucket(&gone(
            "404: <Error><Code>NoSuchBucket</Code></Error>"
        )));
        assert!(!is_no_bucket(&gone(
            "404: <Error><Code>NoSuchKey</Code></Error>"
        )));
    }
}
