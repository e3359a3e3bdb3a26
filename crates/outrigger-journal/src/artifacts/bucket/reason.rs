//! What a service said, in words for people: its own code and message, without the rest of its page.

use object_store::Error;

/// Characters of what a service said.
const MOST: usize = 300;
/// Where machines and containers of Amazon's give keys.
const MACHINE: &str = "http://169.254.";

/// Why something could not be done.
pub(super) fn reason(error: &Error) -> String {
    let deepest = deepest(error);
    let said = page(&deepest).unwrap_or_else(|| cut(&deepest));
    match error {
        _ if is_about_the_machine(error) => format!(
            "no key is said (`access_key_id`, `secret_access_key`), and this machine gives none ({said})"
        ),
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

/// Whether it was not the bucket that was asked, but the machine, for a key.
fn is_about_the_machine(error: &Error) -> bool {
    causes(error).any(|cause| cause.to_string().contains(MACHINE))
}

fn causes(error: &Error) -> impl Iterator<Item = &dyn std::error::Error> {
    let first: &dyn std::error::Error = error;
    std::iter::successors(Some(first), |cause| cause.source())
}

/// What the innermost cause says: those around it only repeat the address.
fn deepest(error: &Error) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
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
    let on_one_line = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = plain.chars().take(MOST).map(on_one_line).collect();
    if plain.chars().nth(MOST).is_some() {
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
    fn that_there_is_no_key_is_told_as_that() {
        let said =
            "Error performing PUT http://169.254.169.254/latest/api/token in 3.2s - timed out";
        let told = reason(&Error::Generic {
            store: "S3",
            source: because(said),
        });
        assert!(
            told.starts_with("no key is said (`access_key_id`"),
            "{told}"
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
