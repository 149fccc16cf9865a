// @ts-check
// Why a property holds or not, and the effects of a step, in Portuguese.  The session words them in English; this table has a
// template for each of its sentences, longer ones first.  A test translates every reason of every scenario.

import { currentLanguage } from "./texts.js";

/** @type {[RegExp, string][]} */
const PORTUGUESE = [
  // Mutual exclusion.
  [/(\d+) others? entered between the request and the entry of (.+?); at most (\d+) are claimed/, "entradas de outros entre o pedido e a entrada de $2: $1; o prometido é no máximo $3"],
  [/at most 1 other entered in between/, "no máximo um outro entrou nesse meio-tempo"],
  [/at most (\d+) others entered in between/, "no máximo $1 outros entraram nesse meio-tempo"],
  [/the request of (.+?) at (\S+ ms) happened before that of (.+?) at (\S+ ms), which entered first, at (\S+ ms)/, "o pedido de $1 em $2 aconteceu antes do de $3 em $4, que entrou primeiro, em $5"],
  [/no process entered, so nothing was shown/, "nenhum processo entrou, então nada foi mostrado"],
  [/no process requested entry, so nothing was shown/, "nenhum processo pediu para entrar, então nada foi mostrado"],
  [/\b1 entry, never two at once/, "1 entrada, nunca duas ao mesmo tempo"],
  [/(\d+) entries, never two at once/, "$1 entradas, nunca duas ao mesmo tempo"],
  [/(\d+) entries, none before a request that happened before its own/, "$1 entradas, nenhuma antes de um pedido que aconteceu antes do seu"],
  [/fewer than two entries, so there was no order to keep/, "menos de duas entradas, então não havia ordem a manter"],
  [/messages were not recorded, so nothing is known of what happened before what/, "as mensagens não foram registradas, então não se sabe o que aconteceu antes de quê"],
  [/the request was served/, "o pedido foi atendido"],
  [/all (\d+) requests were served/, "todos os $1 pedidos foram atendidos"],
  [/no process that is up is left waiting/, "nenhum processo ativo ficou esperando"],
  [/nothing can happen any more; waiting: /, "nada mais pode acontecer; esperam: "],
  [/no process is inside; waiting: /, "nenhum processo está dentro; esperam: "],
  [/no process enters any more, see ME2-deadlock/, "nenhum processo entra mais, veja ME2-deadlock"],
  [/the run was cut off while (.+?) waited, after ([\d,]+) entr(?:y|ies)/, "a execução foi interrompida enquanto $1 esperava; entradas: $2"],
  [/(.+?) has waited since (\S+ ms) while others entered ([\d,]+) times?/, "$1 espera desde $2 enquanto outros entraram $3x"],
  [/; cycle /, "; ciclo "],
  [/; ([^;]+) crashed inside/, "; $1 caiu dentro"],
  [/ \(crashed\)/g, " (caído)"],
  [/ \(inside\)/g, " (dentro)"],
  // Tokens and writes.
  [/at (\S+ ms) the resource accepted a write of (.+?), after one of /, "em $1 o recurso aceitou uma escrita de $2, depois de uma de "],
  [/\b1 write accepted, none older than one before it/, "1 escrita aceita, nenhuma mais antiga que uma anterior"],
  [/([\d,]+) writes accepted, none older than one before it/, "$1 escritas aceitas, nenhuma mais antiga que uma anterior"],
  [/; (\d+) refused, the last at (\S+ ms) that of (.+?) with token (\S+), after one with /, "; $1 recusadas, a última em $2 a de $3 com token $4, depois de uma com "],
  [/no process wrote, so nothing was shown/, "nenhum processo escreveu, então nada foi mostrado"],
  [/ has the token (\S+) that (.+?) has, too/, " tem o token $1 que $2 também tem"],
  [/ has the token (\S+), although (.+?) had (\S+) before it was asked for/, " tem o token $1, embora $2 tivesse $3 antes que fosse pedido"],
  [/\b1 grant, the last with token /, "1 concessão, a última com token "],
  [/(\d+) grants, the last with token /, "$1 concessões, a última com token "],
  [/, which entered at (\S+ ms) with token /g, ", que entrou em $1 com token "],
  [/, which entered at (\S+ ms),/g, ", que entrou em $1,"],
  // Election.
  [/at (\S+ ms) (.+?) became leader of term (\d+), which (.+?) had won before/, "em $1 $2 tornou-se líder do termo $3, que $4 já tinha vencido"],
  [/at (\S+ ms) (.+?) became leader while (.+?) led since /, "em $1 $2 tornou-se líder enquanto $3 liderava desde "],
  [/, and both still did at (\S+ ms), when the news had had time to arrive/, ", e ambos ainda lideravam em $1, quando a notícia já podia ter chegado"],
  [/at (\S+ ms) (.+?) made itself leader while (.+?), whom all had named, was in office/, "em $1 $2 fez-se líder enquanto $3, que todos tinham nomeado, estava no cargo"],
  [/at (\S+ ms) (.+?) turned to (.+?) while (.+?), whom all had named, was in office/, "em $1 $2 passou a $3 enquanto $4, que todos tinham nomeado, estava no cargo"],
  [/in the end at most one considers itself leader/, "ao fim no máximo um se considera líder"],
  [/in the end (.+?) consider themselves leaders/, "ao fim $1 se consideram líderes"],
  [/\b1 term with a leader, never two in one/, "1 termo com líder, nunca dois em um"],
  [/(\d+) terms with a leader, never two in one/, "$1 termos com líder, nunca dois em um"],
  [/\b1 time a process became leader, never two at once/, "1 vez um processo tornou-se líder, nunca dois ao mesmo tempo"],
  [/(\d+) times a process became leader, never two at once/, "$1 vezes um processo tornou-se líder, nunca dois ao mesmo tempo"],
  [/no process was elected, so nothing was shown/, "nenhum processo foi eleito, então nada foi mostrado"],
  [/no process has named a leader, so nothing was shown/, "nenhum processo nomeou um líder, então nada foi mostrado"],
  [/there was never a leader whom all had named, so nothing was shown/, "nunca houve um líder que todos tivessem nomeado, então nada foi mostrado"],
  [/no process left a leader that was in office/, "nenhum processo deixou um líder que estava no cargo"],
  [/\b1 change of leader/, "1 mudança de líder"],
  [/(\d+) changes of leader/, "$1 mudanças de líder"],
  [/all (\d+) that are up have named a leader/, "todos os $1 ativos nomearam um líder"],
  [/no leader is known to /, "nenhum líder é conhecido por "],
  [/ \(waits for ([^)]*)\)/g, " (espera $1)"],
  [/all name (.+?), which is down/, "todos nomeiam $1, que está caído"],
  [/all name /, "todos nomeiam "],
  [/they disagree: /, "discordam: "],
  // Failure detectors.
  [/(.+?) down, and suspected by all (\d+) that are up/, "$1 caído, e suspeito por todos os $2 ativos"],
  [/(.+?) does not suspect (.+?), which is down since /, "$1 não suspeita de $2, que está caído desde "],
  [/(.+?) suspects (.+?) since (\S+ ms), and it is up/, "$1 suspeita de $2 desde $3, e ele está ativo"],
  [/one mistake/, "um engano"],
  [/no mistakes/, "nenhum engano"],
  [/(\d+) mistakes/, "$1 enganos"],
  [/, the last over at /, ", o último até "],
  // The end of a run.
  [/; nothing changed from (\S+ ms) to the end at /, "; nada mudou de $1 até o fim em "],
  [/, but that is not final: the last change was at /, ", mas isso não é definitivo: a última mudança foi em "],
  // Causes.
  [/^at (\S+ ms) (.+?) entered\b/, "em $1 $2 entrou"],
  [/ on its own (\w+)/g, " por seu próprio $1"],
  [/ on its recovery/g, " ao se recuperar"],
  [/ on (\w+(?:\(.*?\))?) from (.+?)(?=,|$)/g, " ao receber $1 de $2"],
  [/ when its timer (.+?) ran out/g, " quando seu temporizador $1 expirou"],
  [/, which (.+?) sent /g, ", que $1 enviou "],
  [/, while /g, ", enquanto "],
  [/ was inside since /g, " estava dentro desde "],
  [/ and paused/g, " e pausado"],
  [/ and /g, " e "],
  [/ for (?=[^,;]+(?:,|;|$))/g, " por "],
  // Effects of a step.
  [/^send (.+) to (.+)$/, "envia $1 a $2"],
  [/^broadcast /, "envia a todos "],
  [/^set timer (.+) after (.+) us$/, "inicia o temporizador $1 para $2 µs"],
  [/^cancel timer /, "cancela o temporizador "],
  [/^choose /, "sorteia "],
  [/^indicate /, "informa "],
];

/** A sentence of the session in the language of the page. @param {string} text */
export function translated(text) {
  if (currentLanguage() !== "pt") return text;
  return PORTUGUESE.reduce((said, [pattern, words]) => said.replace(pattern, words), text);
}
