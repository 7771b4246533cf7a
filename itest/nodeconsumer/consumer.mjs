// A consumer of leasesvc, written from docs/protocol.md: it keeps a connection to
// Redis logged in with whatever lease it is told to use. Settings come as one
// line of JSON on the standard input, and so do the words of the test ("no",
// "yes", "end"); what it does goes to the standard output, a JSON object a line.
import { randomBytes } from "node:crypto";
import { createConnection } from "node:net";
import { createInterface } from "node:readline";
import { connect, createInbox, headers, nkeys } from "nats";

const text = new TextDecoder();
const bytes = new TextEncoder();
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const nonce = () => randomBytes(16).toString("base64url");

// An incarnation: 10 characters of time, 16 of chance, Crockford's base 32.
function ulid(now) {
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  let time = "";
  for (let i = 0; i < 10; i++, now = Math.floor(now / 32)) time = digits[now % 32] + time;
  return time + Array.from(randomBytes(16), (b) => digits[b % 32]).join("");
}

// One session with Redis. It logs in, asks who it is, and stays open.
class Session {
  static async open(settings, lease, values) {
    const s = new Session();
    s.lease = lease;
    s.socket = createConnection(settings.redis);
    s.socket.setEncoding("utf8");
    s.socket.on("error", () => {});
    await s.ask(["AUTH", values.username, values.password]);
    const who = await s.ask(["ACL", "WHOAMI"]);
    if (!who.includes(values.username)) throw new Error("logged in as somebody else");
    return s;
  }
  ask(words) {
    return new Promise((done, fail) => {
      const ended = () => fail(new Error("the connection broke"));
      this.socket.once("close", ended);
      this.socket.once("data", (answer) => {
        this.socket.off("close", ended);
        answer.startsWith("-") ? fail(new Error("the login is refused")) : done(answer);
      });
      this.socket.write(`*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join(""));
    });
  }
  close() { this.socket.destroy(); }
}

class Consumer {
  constructor(nc, settings) {
    Object.assign(this, { nc, settings, epoch: 0, n: 0, said: null, doing: null, answered: false, refuse: false });
    this.sessions = new Map(); // by lease
    this.key = nkeys.fromSeed(bytes.encode(settings.seed));
    this.xpair = nkeys.createCurve();
    this.incarnation = ulid(Date.now());
    this.subject = `leasesvc.c.${settings.scope}.${settings.name}.${this.incarnation}`;
    this.work = Promise.resolve(); // one thing at a time
  }

  sign(body) {
    const raw = JSON.stringify(body);
    const { scope, name } = this.settings;
    const signature = this.key.sign(bytes.encode(`leasesvc-signature-v1\n${body.type}\n${scope}\n${name}\n${raw}`));
    const h = headers();
    h.set("Leasesvc-Signature", Buffer.from(signature).toString("base64url"));
    return [bytes.encode(raw), { headers: h }];
  }

  open(data) {
    if (text.decode(data.subarray(0, 4)) !== "xkv1") return null;
    const plain = this.xpair.open(data, this.settings.service_key);
    return plain && JSON.parse(text.decode(plain));
  }

  // request sends and takes the first answer that accept gives something for.
  async request(operation, body, accept) {
    const inbox = createInbox();
    const sub = this.nc.subscribe(inbox);
    const [data, options] = this.sign(body);
    this.nc.publish(`leasesvc.${operation}.${this.settings.scope}.${this.settings.name}`, data, { ...options, reply: inbox });
    const limit = setTimeout(() => sub.unsubscribe(), 3000);
    let refused = { code: "unavailable" };
    try {
      for await (const m of sub) {
        if (m.headers?.code === 503) break; // no responders
        const accepted = accept(m.data);
        if (accepted) return accepted;
        let other;
        try { other = JSON.parse(text.decode(m.data)); } catch { continue; }
        if (other.type !== "error") continue;
        refused = other;
        if (other.code !== "not-leader") break;
        setTimeout(() => sub.unsubscribe(), 200); // the holder may answer yet
      }
    } finally {
      clearTimeout(limit);
      sub.unsubscribe();
    }
    throw refused;
  }

  // register asks until it is answered.
  async register() {
    let replaces;
    for (let pause = 200; !this.ended; pause = Math.min(2 * pause, 10000)) {
      const body = {
        v: 1, type: "registration", consumer: this.settings.consumer, instance: this.settings.instance,
        incarnation: this.incarnation, replaces, key: this.key.getPublicKey(), xkey: this.xpair.getPublicKey(),
        subject: this.subject, protocol: 1, time: new Date().toISOString(), nonce: nonce(),
      };
      try {
        const answer = await this.request("register", body, (data) => {
          const a = this.open(data);
          return a?.type === "answer" && a.nonce === body.nonce && a.incarnation === this.incarnation &&
            a.scope === this.settings.scope && a.name === this.settings.name ? a : null;
        });
        this.take(answer);
        return;
      } catch (refused) {
        say({ refused: refused.code ?? String(refused) });
        if (refused.code === "mismatch") replaces = refused.registered;
        await sleep(refused.code === "mismatch" ? 0 : pause);
      }
    }
  }

  // take handles an answer to a registration of ours.
  take(a) {
    if (a.epoch < this.epoch || a.n < this.n) return;
    const first = !this.answered;
    this.answered = true;
    this.epoch = a.epoch;
    if (a.n === this.n && !first) return;
    this.n = a.n;
    this.said = null;
    say({ registered: this.incarnation, n: a.n, lease: a.lease });
    if (a.n > 0) this.begin({ kind: a.lease ? "follow" : "revert", n: a.n, lease: a.lease, values: a.values }, null);
  }

  // hear handles a message from the service.
  hear(m) {
    if (!this.answered) return; // nothing before our registration is answered
    const msg = this.open(m.data);
    const { scope, name } = this.settings;
    if (msg?.type !== "message" || msg.scope !== scope || msg.name !== name || msg.incarnation !== this.incarnation) return;
    if (msg.epoch < this.epoch || msg.n < this.n) return this.reply(m, msg, "stale");
    this.epoch = msg.epoch;
    if (msg.n === this.n) {
      if (this.said && this.said.lease === msg.lease) return this.reply(m, msg, this.said.verdict, this.said.reason);
      if (this.doing?.n === msg.n) return this.doing.waiting.push([m, msg]);
      if (msg.kind === "prepare") return;
    }
    this.n = msg.n;
    this.said = null;
    this.begin(msg, m);
  }

  begin(msg, m) {
    const task = { n: msg.n, waiting: m ? [[m, msg]] : [] };
    this.doing = task;
    const deadline = Date.now() + 1000 * Number(msg.time_left_s ?? 60);
    this.work = this.work.then(async () => {
      let verdict, reason;
      try {
        if (this.n !== msg.n) throw new Error("superseded");
        await this[msg.kind](msg);
        if (msg.kind === "prepare" && Date.now() > deadline) throw new Error("the time is up");
        verdict = msg.kind === "prepare" ? "yes" : "confirmed";
      } catch (err) {
        [verdict, reason] = ["no", err.message.slice(0, 200)];
      }
      if (this.n !== msg.n) [verdict, reason] = ["stale", undefined];
      else if (verdict !== "no" || msg.kind === "prepare") this.said = { verdict, reason, lease: msg.lease };
      say({ did: msg.kind, n: msg.n, lease: msg.lease, verdict, reason });
      for (const [raw, asked] of task.waiting) this.reply(raw, asked, verdict, reason);
      if (this.doing === task) this.doing = null;
    });
  }

  reply(m, msg, verdict, reason) {
    const { scope, name } = this.settings;
    m.respond(...this.sign({
      v: 1, type: "reply", scope, name, incarnation: this.incarnation, epoch: msg.epoch, n: msg.n, kind: msg.kind,
      verdict, reason, last_n: this.n,
    }));
  }

  // What is asked for. The application's work goes to this.current.
  async prepare(msg) {
    if (this.refuse) throw new Error("not in the middle of a job");
    await this.use(msg);
  }
  async follow(msg) {
    await this.use(msg);
    for (const [lease, session] of this.sessions) {
      if (lease === msg.lease) continue;
      session.close();
      this.sessions.delete(lease);
    }
  }
  async revert(msg) {
    if (msg.lease) return this.follow(msg);
    this.current = null;
    for (const session of this.sessions.values()) session.close();
    this.sessions.clear();
  }
  async use(msg) {
    if (!this.sessions.has(msg.lease)) this.sessions.set(msg.lease, await Session.open(this.settings, msg.lease, msg.values));
    this.current = this.sessions.get(msg.lease);
  }

  async end() {
    this.ended = true;
    await this.work;
    for (const session of this.sessions.values()) session.close();
    await this.request("leave", {
      v: 1, type: "leave", consumer: this.settings.consumer, instance: this.settings.instance, incarnation: this.incarnation,
      key: this.key.getPublicKey(), time: new Date().toISOString(), nonce: nonce(),
    }, (data) => {
      try { return JSON.parse(text.decode(data)).type === "left"; } catch { return false; }
    });
    say({ left: this.incarnation });
    await this.nc.close();
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const settings = JSON.parse((await lines.next()).value);
const nc = await connect({ servers: settings.nats });
const consumer = new Consumer(nc, settings);
const sub = nc.subscribe(consumer.subject);
(async () => { for await (const m of sub) consumer.hear(m); })();
await nc.flush();
await consumer.register();
const again = setInterval(() => consumer.register(), 60000); // in case we were taken for gone
for (let line = await lines.next(); !line.done && line.value !== "end"; line = await lines.next()) {
  consumer.refuse = line.value === "no";
  say({ told: line.value });
}
clearInterval(again);
await consumer.end();
