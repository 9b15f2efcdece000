/** Requests in flight, and then background work, when a server stops. */
const [STOP_REQUESTS, STOP_WORK] = [6_000, 3_000]

/** Time limits of the servers whose order matters, in milliseconds. {@link limitOrder} is their order. */
export const limitMilliseconds = {
  /** Receiving the headers of a request. */
  headers: 10_000,
  /** Receiving the headers and the body. */
  receive: 14_000,
  /** Receiving a request of relay or vault. */
  upload: 3_600_000,
  /** Content of 8 MiB at the minimum rate of 4 KiB/s: 34 minutes. */
  slowestUpload: (8_388_608 / 4_096) * 1_000,
  /** The time between two requests of a connection. */
  keepAlive: 65_000,
  /** The time for which proxies and clients often reuse a connection. */
  clientReuse: 60_000,
  /** The time after which many supervisors kill a process that stops. A drain comes before, and needs extra time. */
  supervisor: 10_000,
  /** The stop of a process, which begins after the drain. */
  stopProcess: 9_500,
  stopServer: STOP_REQUESTS + STOP_WORK,
  stopRequests: STOP_REQUESTS,
  stopWork: STOP_WORK,
  /** The lease of a pin task. While it lasts, no other worker calls the IPFS node for the same pin. */
  pinLease: 20_000,
  /** The time after which a node has carried out an earlier call, or never will. */
  pinDoubt: 60_000,
  /** The age from which an unfinished upload of an object is garbage. */
  abandonedUpload: 3_600_000,
  /** A call to the IPFS node. */
  ipfsCall: 10_000,
  /** The wait of a request, and of a stop, for calls that change pins. */
  pinWait: 2_000,
  /** The answer of `/ready`. */
  readiness: 2_000,
  dependencyCheck: 1_800,
  /** Reading the reference clock, which is one of the checks. */
  clockRead: 1_500
}

/** Chains of time limits. Each is shorter than the next. A test asserts it. */
export const limitOrder: readonly (readonly (keyof typeof limitMilliseconds)[])[] = [
  // Node accepts a limit for the headers only up to that for the request.
  ['headers', 'receive'],
  ['slowestUpload', 'upload'],
  // Otherwise the server closes a connection at the same time as the client sends a request.
  ['clientReuse', 'keepAlive'],
  ['pinWait', 'stopWork', 'stopRequests', 'stopServer', 'stopProcess', 'supervisor'],
  // Otherwise a second worker could call the node during the first call.
  ['pinWait', 'ipfsCall', 'pinLease', 'pinDoubt'],
  // Otherwise the collector could delete an object that is written no faster than a body may arrive.
  ['slowestUpload', 'abandonedUpload'],
  ['clockRead', 'dependencyCheck', 'readiness']
]
