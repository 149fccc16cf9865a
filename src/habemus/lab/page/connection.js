// @ts-check
// Requests and replies over one WebSocket.

/** @typedef {Record<string, any>} Message */

/** An error that the session reports in one line. */
export class LabError extends Error {
  /** @param {Message} reply */
  constructor(reply) {
    super(String(reply.message || "error"));
    this.reply = reply;
    /** Whether the process of the session is gone, with all its branches. */
    this.ended = reply.is === "ended";
  }
}

export class Connection {
  /** @type {Map<number, {each: (reply: Message) => void, resolve: (replies: Message[]) => void, reject: (error: Error) => void, replies: Message[]}>} */
  #open = new Map();
  #next = 1;
  /** @type {WebSocket | null} */
  #socket = null;

  /**
   * @param {string} token
   * @param {(welcome: Message) => void} welcome
   * @param {(reason: string) => void} closed
   */
  constructor(token, welcome, closed) {
    const socket = new WebSocket(`ws://${location.host}/session`);
    this.#socket = socket;
    socket.onopen = () => socket.send(JSON.stringify({ token }));
    socket.onmessage = (event) => {
      const reply = JSON.parse(event.data);
      if (reply.is === "welcome") return welcome(reply);
      this.#answered(reply);
    };
    socket.onclose = (event) => {
      for (const each of this.#open.values()) each.reject(new LabError({ message: event.reason || "closed" }));
      this.#open.clear();
      this.#socket = null;
      closed(event.code === 4401 ? "token" : event.reason || "closed");
    };
  }

  get busy() {
    return this.#open.size > 0;
  }

  /** @param {Message} reply */
  #answered(reply) {
    const waiting = this.#open.get(reply.id);
    if (!waiting) return;
    if (reply.is === "error" || reply.is === "ended") {
      this.#open.delete(reply.id);
      return waiting.reject(new LabError(reply));
    }
    waiting.replies.push(reply);
    waiting.each(reply);
    if (reply.done) {
      this.#open.delete(reply.id);
      waiting.resolve(waiting.replies);
    }
  }

  /**
   * Send a request; `each` sees every reply as it comes.
   * @param {string} what @param {Message} [fields] @param {(reply: Message) => void} [each]
   * @returns {Promise<Message[]>}
   */
  ask(what, fields = {}, each = () => {}) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      if (!this.#socket) return reject(new LabError({ message: "closed" }));
      this.#open.set(id, { each, resolve, reject, replies: [] });
      this.#socket.send(JSON.stringify({ id, do: what, ...fields }));
    });
  }
}
