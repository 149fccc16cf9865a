// @ts-check
// Every text of the page, in English and Portuguese.

/** @type {Record<string, Record<string, string>>} */
export const TEXTS = {
  en: {
    "step number": "step {number}", skip: "Skip to the diagram", lamps: "Properties", costs: "Costs", diagram: "Space-time diagram", details: "Details",
    events: "Events", open: "Open…", export: "Export", help: "Help: marks and keys", language: "Português", theme: "Theme",
    first: "To the beginning", back: "Back", step: "Step", play: "Play", pause: "Pause", last: "To the end",
    event: "Event", pending: "Next", graph: "Graph", tree: "Branches", speed: "Speed", violation: "To the violation",
    "event back": "One event back", "event on": "One event on", fork: "Fork here", faults: "Faults",
    filter: "Filter", "filter processes": "Processes", "filter names": "Messages", "filter parts": "Components", "top part": "the algorithm itself", all: "all", none: "none", variables: "Variables",
    fold: "Fold repetitions", scale: "Time to scale", future: "Show what follows", causes: "Causes and effects",
    "no event": "Select an event: click it in the diagram, or step.", "no pending": "Nothing can happen next.",
    "pending intro": "What can happen next. Choose an event to let it happen now. The one that comes next anyway is a step; any other begins a branch.",
    natural: "comes next",
    "not playable": "This trace can be watched, but not continued.",
    before: "before", after: "after", variable: "variable", "state of": "State of {label}", changed: "only changes", fields: "Fields",
    effects: "Effects", source: "Executed lines", "no lines": "No handler ran here.", "not executed": "{file}, {handler}",
    past: "Causes", "future cone": "Effects", cone: "{past} causes, {future} effects", "cone title": "Causes and effects",
    holds: "holds so far", violated: "violated", undecided: "undecided", claimed: "claimed", "not claimed": "not claimed",
    "lamp card": "In all states of the check", "lamp run": "In this run", "lamp none": "The card has no cell for this property.",
    "go to violation": "Go to the event", cost: "{measured} (formula: {formula} = {expected})", formula: "formula", measured: "measured",
    "root": "The run", "branch at": "at event {at}", branches: "{count} branches", digest: "digest {digest}",
    "events count": "{shown} of {count}", cursor: "event {at} of {count}", ended: "the run has ended", "goes on": "the run goes on",
    loading: "Working…", closed: "The connection to the lab is closed. Start `habemus lab` again and open its address.",
    token: "This address has no valid token. Open the address that `habemus lab` printed.",
    "open title": "Open a run", "open run": "Run", "open run hint": "An algorithm and the options of `habemus run`",
    "open scenario": "Scenarios", "open trace": "Trace file", "open trace hint": "Drop a trace or a counterexample here, or choose a file",
    "open check": "Counterexample", "open check hint": "Search every interleaving, and open the violation that is found",
    "open link": "Link", "open link hint": "A link that was exported by the lab", go: "Open", check: "Search", cancel: "Cancel", close: "Close",
    search: "Search", algorithm: "Algorithm", "choose file": "Choose a file",
    trust: "Run this file?", "trust text": "This trace names an algorithm by its path: {path}. Opening it runs that file with your rights. Do it only if you trust it.",
    "trust yes": "Run it", crash: "Crash", recover: "Recover", amnesia: "Recover without memory", "pause process": "Pause…", "cut from": "Cut from {label}",
    "cut to": "Cut only {from} → {to}", isolate: "Cut off from all", partition: "Partition…", "heal all": "Heal all links", luck: "Other luck from here",
    deliver: "Deliver now", drop: "Lose it", duplicate: "Duplicate it", delay: "Deliver later…", "delay by": "Time", "show causes": "Show causes and effects",
    "go here": "Go to this event", "hide process": "Hide this process", "only process": "Show only this process", "clear filters": "Clear filters",
    "partition title": "Partition", "partition hint": "Processes that are checked are cut off from the others.", apply: "Apply",
    "x svg": "Picture (SVG)", "x png": "Picture (PNG)", "x mermaid": "Mermaid", "x shiviz": "ShiViz", "x jsonl": "Trace (JSON lines)", "x perfetto": "Perfetto",
    "x pytest": "pytest file", "x scenario": "Scenario", "x command": "Command", "x link": "Link", copied: "Copied to the clipboard.", saved: "Saved {name}.",
    copy: "Copy", "take it": "Take it away", "copy failed": "Select the text and copy it.",
    "keys title": "How to read and use the lab", keys: "Keys", "marks title": "The diagram",
    "mark inside": "in the critical section; the number is the order of entry", "mark waiting": "waits to enter", "mark leader": "is the leader, with its term",
    "mark request": "the application asks: to enter, to leave", "mark indicate": "the process answers: it may enter, it names a leader", "mark timer": "a timer expires",
    "mark message": "a message, from its sending to its receipt", "mark lost": "a lost message", "mark crash": "a crash; hatched until the process recovers", "mark cut": "links are cut",
    "mark card": "beside a property: a search of all states without faults found no violation, found one", "key play": "Play or pause", "key step": "Step, back", "key event": "One event on, back", "key ends": "Beginning, end",
    "key violation": "To the next violation", "key pan": "Pan and zoom", "key fit": "Show everything", "key process": "Choose a process", "key menu": "Menu of the selection",
    "key faults": "Crash, recover, pause the chosen process", "key cut": "Cut the chosen process off, heal all", "key luck": "Other luck from here",
    "key next": "Deliver the next pending event 1 to 9", "key causes": "Causes and effects", "key open": "Open", "key export": "Export", "key tabs": "Panels: event, next, graph, branches",
    "key table": "Table of events", "key esc": "Close, deselect", "key help": "This list",
    halted: "{property} violated: {why}", "play on": "Play goes on past it.", forked: "New branch: {what}", "no next": "The run has ended.",
    time: "time", process: "process", what: "what happens", inside: "inside", number: "#", "process {label}": "process {label}",
    "diagram label": "Space-time diagram of {processes} processes and {events} events. Arrow keys step, the table of events has the same contents.",
    overview: "Overview of the run", resize: "Width of the details", network: "network", live: "Follow", choose: "choose",
    "lost line": "lost", "under way": "under way", arrives: "arrives at {time}", sent: "sent at {time}", repeats: "stands for {count} like it",
    "kind message": "message", "kind timer": "timer", "kind request": "request", "kind fault": "fault", "state diff": "Changed by this step", "state rest": "Unchanged",
    "ended line": "{message}. The lab goes on; the last run was opened again.", "trace name": "trace {name}",
    "voting sets": "Voting sets", suspects: "suspects {label}", leader: "leader", waiting: "waiting", down: "crashed", paused: "paused", idle: "idle", under: "under way: {count}",
    "e start": "starts", "e recover": "recovers", "e recover amnesia": "recovers without its memory", "e recover replaced": "is replaced: its memory is lost",
    "e crash": "crashes", "e pause": "pauses", "e resume": "goes on", "e request acquire": "asks to enter", "e request release": "leaves",
    "e request": "is asked to {what}", "e indicate Granted": "enters", "e indicate LockLost": "has lost the lock", "e indicate": "says {what}",
    "e send": "sends {what} to {peer}", "e receive": "gets {what} from {peer}", "e lost": "{what} to {peer} is lost", "e lost arrival": "misses {what} from {peer}: it is down",
    "e duplicate": "{what} to {peer} is duplicated", "e timer": "timer {what} expires", "e choose": "draws {what}",
    "e cut": "the link to {peer} is cut", "e heal": "the link to {peer} is healed", "e slow": "the link to {peer} has another delay",
    "n cut": "cut {links}", "n heal": "healed {links}", "n slow": "slow {links}",
  },
  pt: {
    "step number": "passo {number}", skip: "Ir para o diagrama", lamps: "Propriedades", costs: "Custos", diagram: "Diagrama espaço-tempo", details: "Detalhes",
    events: "Eventos", open: "Abrir…", export: "Exportar", help: "Ajuda: sinais e teclas", language: "English", theme: "Tema",
    first: "Ao início", back: "Voltar", step: "Passo", play: "Executar", pause: "Parar", last: "Ao fim",
    event: "Evento", pending: "Próximo", graph: "Grafo", tree: "Ramos", speed: "Velocidade", violation: "À violação",
    "event back": "Um evento atrás", "event on": "Um evento adiante", fork: "Bifurcar aqui", faults: "Falhas",
    filter: "Filtro", "filter processes": "Processos", "filter names": "Mensagens", "filter parts": "Componentes", "top part": "o próprio algoritmo", all: "todos", none: "nenhum", variables: "Variáveis",
    fold: "Dobrar repetições", scale: "Tempo em escala", future: "Mostrar o que segue", causes: "Causas e efeitos",
    "no event": "Selecione um evento: clique nele no diagrama ou avance um passo.", "no pending": "Nada mais pode acontecer.",
    "pending intro": "O que pode acontecer a seguir. Escolha um evento para que aconteça agora. O que viria de qualquer modo é um passo; outro começa um ramo.",
    natural: "vem a seguir",
    "not playable": "Este registro pode ser visto, mas não continuado.",
    before: "antes", after: "depois", variable: "variável", "state of": "Estado de {label}", changed: "só mudanças", fields: "Campos",
    effects: "Efeitos", source: "Linhas executadas", "no lines": "Nenhum tratador foi executado aqui.", "not executed": "{file}, {handler}",
    past: "Causas", "future cone": "Efeitos", cone: "{past} causas, {future} efeitos", "cone title": "Causas e efeitos",
    holds: "vale até aqui", violated: "violada", undecided: "indecisa", claimed: "prometida", "not claimed": "não prometida",
    "lamp card": "Em todos os estados da verificação", "lamp run": "Nesta execução", "lamp none": "O cartão não tem célula para esta propriedade.",
    "go to violation": "Ir ao evento", cost: "{measured} (fórmula: {formula} = {expected})", formula: "fórmula", measured: "medido",
    "root": "A execução", "branch at": "no evento {at}", branches: "{count} ramos", digest: "resumo {digest}",
    "events count": "{shown} de {count}", cursor: "evento {at} de {count}", ended: "a execução terminou", "goes on": "a execução continua",
    loading: "Trabalhando…", closed: "A conexão com o laboratório foi fechada. Inicie `habemus lab` de novo e abra seu endereço.",
    token: "Este endereço não tem um código válido. Abra o endereço que `habemus lab` imprimiu.",
    "open title": "Abrir uma execução", "open run": "Execução", "open run hint": "Um algoritmo e as opções de `habemus run`",
    "open scenario": "Cenários", "open trace": "Arquivo de registro", "open trace hint": "Solte aqui um registro ou contraexemplo, ou escolha um arquivo",
    "open check": "Contraexemplo", "open check hint": "Busca todas as ordens de eventos e abre a violação encontrada",
    "open link": "Link", "open link hint": "Um link exportado pelo laboratório", go: "Abrir", check: "Buscar", cancel: "Cancelar", close: "Fechar",
    search: "Procurar", algorithm: "Algoritmo", "choose file": "Escolher arquivo",
    trust: "Executar este arquivo?", "trust text": "Este registro indica um algoritmo por seu caminho: {path}. Abri-lo executa esse arquivo com os seus direitos. Faça isso só se confia nele.",
    "trust yes": "Executar", crash: "Derrubar", recover: "Recuperar", amnesia: "Recuperar sem memória", "pause process": "Pausar…", "cut from": "Cortar de {label}",
    "cut to": "Cortar só {from} → {to}", isolate: "Isolar de todos", partition: "Particionar…", "heal all": "Restaurar todos os enlaces", luck: "Outra sorte daqui",
    deliver: "Entregar agora", drop: "Perder", duplicate: "Duplicar", delay: "Entregar mais tarde…", "delay by": "Tempo", "show causes": "Mostrar causas e efeitos",
    "go here": "Ir a este evento", "hide process": "Ocultar este processo", "only process": "Mostrar só este processo", "clear filters": "Limpar filtros",
    "partition title": "Partição", "partition hint": "Os processos marcados ficam separados dos outros.", apply: "Aplicar",
    "x svg": "Figura (SVG)", "x png": "Figura (PNG)", "x mermaid": "Mermaid", "x shiviz": "ShiViz", "x jsonl": "Registro (JSON por linha)", "x perfetto": "Perfetto",
    "x pytest": "Arquivo pytest", "x scenario": "Cenário", "x command": "Comando", "x link": "Link", copied: "Copiado.", saved: "{name} salvo.",
    copy: "Copiar", "take it": "Leve consigo", "copy failed": "Selecione o texto e copie.",
    "keys title": "Como ler e usar o laboratório", keys: "Teclas", "marks title": "O diagrama",
    "mark inside": "na seção crítica; o número é a ordem de entrada", "mark waiting": "espera para entrar", "mark leader": "é o líder, com seu termo",
    "mark request": "a aplicação pede: entrar, sair", "mark indicate": "o processo responde: pode entrar, nomeia um líder", "mark timer": "um temporizador expira",
    "mark message": "uma mensagem, do envio à recepção", "mark lost": "uma mensagem perdida", "mark crash": "uma queda; hachurado até que o processo se recupere", "mark cut": "enlaces cortados",
    "mark card": "ao lado de uma propriedade: uma busca em todos os estados sem falhas não achou violação, achou uma", "key play": "Executar ou parar", "key step": "Passo, voltar", "key event": "Um evento adiante, atrás", "key ends": "Início, fim",
    "key violation": "À próxima violação", "key pan": "Mover e ampliar", "key fit": "Mostrar tudo", "key process": "Escolher um processo", "key menu": "Menu da seleção",
    "key faults": "Derrubar, recuperar, pausar o processo escolhido", "key cut": "Isolar o processo escolhido, restaurar tudo", "key luck": "Outra sorte daqui",
    "key next": "Entregar o próximo evento pendente, 1 a 9", "key causes": "Causas e efeitos", "key open": "Abrir", "key export": "Exportar", "key tabs": "Painéis: evento, próximo, grafo, ramos",
    "key table": "Tabela de eventos", "key esc": "Fechar, desmarcar", "key help": "Esta lista",
    halted: "{property} violada: {why}", "play on": "Executar de novo passa adiante.", forked: "Novo ramo: {what}", "no next": "A execução terminou.",
    time: "tempo", process: "processo", what: "o que acontece", inside: "dentro", number: "nº", "process {label}": "processo {label}",
    "diagram label": "Diagrama espaço-tempo de {processes} processos e {events} eventos. As setas dão passos; a tabela de eventos tem o mesmo conteúdo.",
    overview: "Visão geral da execução", resize: "Largura dos detalhes", network: "rede", live: "Seguir", choose: "escolher",
    "lost line": "perdida", "under way": "a caminho", arrives: "chega em {time}", sent: "enviada em {time}", repeats: "representa {count} iguais",
    "kind message": "mensagem", "kind timer": "temporizador", "kind request": "pedido", "kind fault": "falha", "state diff": "Mudou neste passo", "state rest": "Sem mudança",
    "ended line": "{message}. O laboratório continua; a última execução foi reaberta.", "trace name": "registro {name}",
    "voting sets": "Conjuntos de votação", suspects: "suspeita de {label}", leader: "líder", waiting: "espera", down: "caído", paused: "pausado", idle: "ocioso", under: "a caminho: {count}",
    "e start": "começa", "e recover": "recupera-se", "e recover amnesia": "recupera-se sem memória", "e recover replaced": "é substituído: perdeu a memória",
    "e crash": "cai", "e pause": "pausa", "e resume": "continua", "e request acquire": "pede para entrar", "e request release": "sai",
    "e request": "recebe o pedido {what}", "e indicate Granted": "entra", "e indicate LockLost": "perdeu a trava", "e indicate": "informa {what}",
    "e send": "envia {what} a {peer}", "e receive": "recebe {what} de {peer}", "e lost": "{what} para {peer} se perde", "e lost arrival": "não recebe {what} de {peer}: está caído",
    "e duplicate": "{what} para {peer} é duplicada", "e timer": "expira o temporizador {what}", "e choose": "sorteia {what}",
    "e cut": "o enlace para {peer} é cortado", "e heal": "o enlace para {peer} é restaurado", "e slow": "o enlace para {peer} muda de atraso",
    "n cut": "corte {links}", "n heal": "restaurado {links}", "n slow": "lento {links}",
  },
};

export const LANGUAGES = Object.keys(TEXTS);
let language = "en";

export const currentLanguage = () => language;

/** @param {string} wanted */
export function setLanguage(wanted) {
  language = wanted in TEXTS ? wanted : "en";
  document.documentElement.lang = language;
  for (const each of document.querySelectorAll("[data-t]")) each.textContent = t(/** @type {any} */ (each).dataset.t);
}

/** @param {string} key @param {Record<string, any>} [values] @returns {string} */
export function t(key, values = {}) {
  const text = TEXTS[language][key] ?? TEXTS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** @param {string} key */
export const has = (key) => key in TEXTS.en;

/** @param {number} time in microseconds; a counterexample has a step in each millisecond @param {boolean} [steps] */
export function moment(time, steps = false) {
  if (steps) return t("step number", { number: time / 1000 });
  const digits = (time / 1000).toFixed(3).replace(/\.?0+$/, "");
  return `${digits} ms`;
}

/** A value of JSON as people write it. @param {any} plain @returns {string} */
export function plainText(plain) {
  if (plain === null) return "None";
  if (plain === true) return "True";
  if (plain === false) return "False";
  if (Array.isArray(plain)) return `[${plain.map(plainText).join(", ")}]`;
  return typeof plain === "object" ? JSON.stringify(plain) : String(plain);
}

/** What an event carries, as the session words it. @param {import("./model.js").Line} line */
export const whatOf = (line) => line.w || line.name || plainText(line.v?.value ?? "");

/**
 * Describe an event without the name of its process: "sends Request(6) to 2".
 * @param {import("./model.js").Line} line @param {(process: number) => string} label @param {boolean} [onArrival]
 */
export function inWords(line, label, onArrival = false) {
  let key = `e ${line.e}`;
  if (line.e === "lost" && onArrival) key = "e lost arrival";
  else if (line.e === "recover" && has(`e recover ${line.v?.value}`)) key = `e recover ${line.v?.value}`;
  else if (has(`${key} ${line.name}`) && (line.e === "request" || line.e === "indicate")) key = `${key} ${line.name}`;
  return t(key, { what: whatOf(line), peer: line.peer === undefined ? "" : label(line.peer) });
}
