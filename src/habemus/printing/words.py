"""Output of printer and client for people, in English and Portuguese.

Callers give the name of a message and its fields (`tell("refuses", client=3)`).  The words are here
alone, so no other file depends on the language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Tell(Protocol):
    def __call__(self, what: str, /, **fields: Any) -> None: ...


ENGLISH = {
    # The client.
    "listens": "client {me} listens on {place}; the group is {clients}",
    "state": "client {me}: {state}, clock {clock}{waits}",
    "waits": ", waits for {clients}",
    "waiting": "client {me} still waits for {clients}{away}",
    "away": " (not reached: {clients})",
    "unreachable": (
        "client {client} cannot be reached at {place}; waiting for it, because it may be printing"
    ),
    "fails": (
        "client {client} at {place} answers with error {why}, which is not a reply; retrying"
    ),
    "refuses": "client {client} answers access_granted=false, which is not a reply; retrying",
    "gave-up": (
        "WARNING: entering without the reply of {clients}; if one of them is only slow, two jobs"
        " can overlap"
    ),
    "forgetful": (
        "client {client} requests with stamp {stamp} although it has replied to this request:"
        " it has"
        " restarted; it waits for this client"
    ),
    "unknown": "client {client} is not in the group: refused",
    "same-id": "another client has the same id {client}: refused",
    "strange-stamp": ("client {client} sent the stamp {stamp}, which is out of range: ignored"),
    "printer-away": (
        "the printer cannot be reached at {place}; waiting for it before requesting access"
    ),
    "no-printer": "the printer at {place} did not print: {why}",
    "printed": "client {me} printed {text!r} ({said})",
    "not-printed": "client {me} did not print {text!r}: {said}",
    "stays": (
        "client {me} has printed {done} of {all} and keeps answering its peers; Ctrl-C exits"
    ),
    "left": "client {me} leaves; {done} of {all} printed, clock {clock}",
    "prompt": "Type a text to print it; an empty line shows the state, Ctrl-D exits.",
    "unsafe": (
        "WARNING: --give-up {seconds} counts silence as a reply. A client that is slow, or"
        " prints for longer, is counted as dead, and two jobs can overlap (habemus scenario"
        " ra-timeout-slow)"
    ),
    "text": "text {number} of client {me}",
    # The printer.
    "printer": "the printer listens on {place}",
    "job": "[client {client}, request {request}, stamp {stamp}] {text}",
    "overlap": (
        "OVERLAP: request {request} of client {client} began while request {other_request} of"
        " client {other} was being printed"
    ),
    "confirmation": "printed request {request} of client {client}",
    "summary": "{jobs} jobs printed",
    "watched": "{jobs} jobs printed, {overlaps} of them while another one was being printed",
}

PORTUGUESE = {
    "listens": "o cliente {me} escuta em {place}; o grupo é {clients}",
    "state": "cliente {me}: {state}, relógio {clock}{waits}",
    "waits": ", espera por {clients}",
    "waiting": "o cliente {me} continua à espera de {clients}{away}",
    "away": " (sem ligação: {clients})",
    "unreachable": (
        "o cliente {client} não responde em {place}; espera-se por ele, pois pode estar na secção"
        " crítica"
    ),
    "fails": (
        "o cliente {client} em {place} responde com o erro {why}, que não é permissão; pergunta-se"
        " de novo"
    ),
    "refuses": (
        "o cliente {client} responde access_granted=false, que não é permissão; pergunta-se de novo"
    ),
    "gave-up": (
        "ATENÇÃO: entrada sem a resposta de {clients}; se algum está apenas lento, dois imprimem ao"
        " mesmo tempo"
    ),
    "forgetful": (
        "o cliente {client} pede com o carimbo {stamp} depois de ter respondido a este pedido:"
        " reiniciou; fica para depois deste cliente"
    ),
    "unknown": "o cliente {client} não é do grupo e é recusado",
    "same-id": "outro cliente tem também o id {client} e é recusado",
    "strange-stamp": (
        "o cliente {client} enviou o carimbo {stamp}, que nenhum relógio pode marcar; não é usado"
    ),
    "printer-away": (
        "a impressora não responde em {place}; espera-se por ela, e não se pede nada aos outros"
        " antes"
    ),
    "no-printer": "a impressora em {place} não imprimiu: {why}",
    "printed": "o cliente {me} imprimiu {text!r} ({said})",
    "not-printed": "o cliente {me} não imprimiu {text!r}: {said}",
    "stays": "o cliente {me} imprimiu {done} de {all} e fica para responder aos outros; Ctrl-C sai",
    "left": "o cliente {me} sai; imprimiu {done} de {all}, relógio {clock}",
    "prompt": "Escreva o que quer imprimir; uma linha vazia mostra o estado, Ctrl-D sai.",
    "unsafe": (
        "ATENÇÃO: --give-up {seconds} conta o silêncio como resposta. Um cliente apenas lento, ou"
        " que está dentro há mais tempo, é dado como morto, e dois imprimem ao mesmo tempo (habemus"
        " scenario ra-timeout-slow)"
    ),
    "text": "texto {number} do cliente {me}",
    "printer": "a impressora escuta em {place}",
    "job": "[cliente {client}, pedido {request}, carimbo {stamp}] {text}",
    "overlap": (
        "SOBREPOSIÇÃO: o pedido {request} do cliente {client} começou enquanto se imprimia o pedido"
        " {other_request} do cliente {other}"
    ),
    "confirmation": "impresso o pedido {request} do cliente {client}",
    "summary": "{jobs} trabalhos impressos",
    "watched": "{jobs} trabalhos impressos, {overlaps} deles enquanto se imprimia outro",
}

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "pt": PORTUGUESE}


def say(language: str, what: str, **fields: Any) -> str:
    """Return a sentence.  Lists of clients become text here; the clauses `waits` and `away` appear
    only if a client waits or is away.
    """
    words = LANGUAGES[language]
    if what == "state":
        fields["waits"] = (
            words["waits"].format(clients=_listed(fields["clients"])) if fields["clients"] else ""
        )
    if what == "waiting":
        fields["away"] = (
            words["away"].format(clients=_listed(fields["away"])) if fields["away"] else ""
        )
    if "clients" in fields:
        fields["clients"] = _listed(fields["clients"])
    return words[what].format(**fields)


def _listed(clients: Sequence[int]) -> str:
    return ", ".join(map(str, clients))


def on_one_line(text: str) -> str:
    """Escape line ends and control characters of received text, for a terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
