//! Tools in each provider's words, and calls mapped back, against a real HTTP server.

use outrigger_agent::provider::ProviderKind;
use outrigger_model::{Message, Part, ToolDeclaration};
use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::provider_play::{finished, model, question, result, serve};

/// A tool with a property whose name some providers refuse.
fn with_odd_names() -> std::sync::Arc<[ToolDeclaration]> {
    vec![ToolDeclaration {
        name: "find".to_owned(),
        description: "Finds.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": { "DateSent<": { "type": "string" } },
            "additionalProperties": false,
        }),
        deferred: None,
    }]
    .into()
}

#[tokio::test]
async fn names_that_a_provider_refuses_are_renamed_and_come_back() {
    for kind in ProviderKind::ALL {
        let sent = match kind {
            ProviderKind::Anthropic | ProviderKind::Gemini => "DateSent_lt",
            ProviderKind::OpenAiChat | ProviderKind::OpenAiResponses => "DateSent<",
        };
        let server = serve([
            Turn::calls([("find", json!({ sent: 20_261_130 }))]),
            Turn::text("done"),
        ])
        .await;
        let model = model(&server, kind);
        let mut request = question();
        request.tools = with_odd_names();
        let turn = finished(&model, request.clone()).await.turn;
        assert_eq!(
            turn.calls[0].arguments, r#"{"DateSent<":20261130}"#,
            "{kind:?}"
        );
        let results = vec![result(&turn, 0, vec![Part::text("none")], false)];
        let answered = [Message::Assistant(turn), Message::ToolResults { results }];
        request.messages.extend(answered);
        // Another allocation of the same tools is declared in the same bytes.
        request.tools = with_odd_names();
        finished(&model, request).await;
        let [first, second] = &server.requests()[..] else {
            panic!("{kind:?}: two requests")
        };
        assert_eq!(
            first.body["tools"].to_string(),
            second.body["tools"].to_string()
        );
        let whole = second.body.to_string();
        let other = if sent == "DateSent<" {
            "DateSent_lt"
        } else {
            "DateSent<\":20"
        };
        assert!(
            whole.contains(sent) && !whole.contains(other),
            "{kind:?}: {whole}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_a_provider_cannot_be_told_of_is_left_out_with_the_reason() {
    let server = serve([Turn::text("done")]).await;
    let model = model(&server, ProviderKind::Gemini);
    let mut tools = with_odd_names().to_vec();
    tools.push(ToolDeclaration {
        name: "any".to_owned(),
        description: "Takes any names.".to_owned(),
        input_schema: json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        deferred: None,
    });
    let mut request = question();
    request.tools = tools.into();
    let declared = model.declared(&request.tools);
    finished(&model, request).await;
    assert!(declared[0].said.as_ref().unwrap().contains("DateSent_lt"));
    assert_eq!(
        declared[1].said.as_ref().unwrap_err(),
        "its arguments may have any name, and gemini takes only declared ones"
    );
    let sent = server.requests().remove(0).body["tools"][0]["functionDeclarations"].clone();
    assert_eq!(sent.as_array().unwrap().len(), 1, "{sent}");
}
