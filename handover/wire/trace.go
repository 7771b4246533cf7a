package wire

// TraceHeader is the NATS header of messages and replies that carries a trace
// (W3C Trace Context, traceparent). It may be missing, it is neither sealed nor
// signed, and nothing may be decided on it: who does not trace ignores it, and so
// does everybody a value that is malformed.
const TraceHeader = "traceparent"
