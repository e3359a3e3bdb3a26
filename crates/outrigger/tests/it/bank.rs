//! A server that takes money and then has an accident, and a model that pays, and pays again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use outrigger_testkit::provider_server::{RecordedRequest, Turn};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::{Place, Ran, fixture};

/// How the bank is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Stdio,
    Http,
}

/// A place with the server `bank`, its book, and the model that pays.
pub(crate) struct Bank {
    pub(crate) place: Place,
    pub(crate) model: Model,
    book: PathBuf,
    http: Option<Child>,
}

/// What the model is asked to do.
pub(crate) const QUESTION: &str = "Pay ada 500 cents";

/// What the model pays.
pub(crate) fn payment() -> Value {
    json!({ "to": "ada", "cents": 500 })
}

/// Pays with this tool. When the outcome is unknown it pays again, word for word, at once and after
/// every word of the person's: the model is not what is to be relied upon.
fn pays(tool: &'static str) -> Model {
    let name = format!("mcp__bank__{tool}");
    let patient = tool == "pay_and_answer_late";
    Model::answering(move |_, request: &RecordedRequest| {
        let messages = request.body["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        let first = results.clone().count() <= 1;
        let asked = messages.last().unwrap()["role"] == "user";
        let said = &request.text;
        let unknown = said.contains("Outcome unknown") && !patient;
        let never_sent = said.contains("Not called: nothing was sent")
            || said.contains("Not called: the host stopped");
        let again = unknown && (first || asked) || never_sent && first;
        if results.count() == 0 || again {
            Turn::calls([(name.as_str(), payment())])
        } else {
            Turn::text("That is what I know.")
        }
    })
}

impl Bank {
    /// The calls of the model have this deadline, and so long to come late.
    pub(crate) fn new(over: Over, tool: &'static str, (call, late): (&str, &str)) -> Self {
        let place = Place::new();
        let book = place.root.join("book");
        let mut http = None;
        let mut entry = match over {
            Over::Stdio => {
                json!({ "command": "python3", "args": ["-S", "-E", fixture("bank_server.py"), book] })
            }
            Over::Http => {
                let mut child = Command::new("python3")
                    .args([fixture("bank_server.py"), book.display().to_string()])
                    .arg("http")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut line = String::new();
                BufReader::new(child.stdout.take().unwrap())
                    .read_line(&mut line)
                    .unwrap();
                http = Some(child);
                json!({ "url": line.trim() })
            }
        };
        entry["timeouts"] = json!({ "call": call, "late": late });
        place.servers(&json!({ "bank": entry }));
        let model = pays(tool);
        model.serves(&place);
        Self {
            place,
            model,
            book,
            http,
        }
    }

    /// What has been paid, a line each.
    pub(crate) fn payments(&self) -> Vec<String> {
        let book = fs::read_to_string(&self.book).unwrap_or_default();
        book.lines().map(ToOwned::to_owned).collect()
    }

    pub(crate) fn ask(&self) -> Ran {
        self.place.run(&["ask", QUESTION, "--allow", "*"])
    }

    /// `runs unknown`, as programs read it.
    pub(crate) fn unknown(&self) -> Vec<Value> {
        let list = self.place.json(&["runs", "unknown", "--json"]);
        list.as_array().unwrap().clone()
    }

    /// The newest run.
    pub(crate) fn newest(&self) -> Option<String> {
        let runs = self.place.json(&["runs", "list", "--json"]);
        Some(runs.get(0)?["id"].as_str().unwrap().to_owned())
    }

    pub(crate) fn resume(&self, run: &str) -> Ran {
        self.place
            .run(&["resume", run, "Go on", "--allow", "*", "--json"])
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        if let Some(child) = &mut self.http {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
