import { limitMilliseconds as libraryMilliseconds, limitOrder as libraryOrder } from 'express-did-auth/server-kit'

/** Minimum transfer rate in bytes per second. A phone on a bad network is ten times faster. */
export const MIN_BYTES_PER_SECOND = 4_096

/** Requests in flight, and then background work, when a server stops. */
const [STOP_REQUESTS, STOP_WORK] = [6_000, 3_000]
/** Number of bytes of a vault list that are read before the first byte is sent. A smaller list is read completely. */
export const MAX_BUFFERED_LIST_BYTES = 1_048_576
/** Time in which a transfer need not reach the minimum rate yet. */
const RATE_GRACE = 5_000

/** Time limits of library and servers whose order matters, in milliseconds. {@link limitOrder} is their order. */
export const limitMilliseconds = {
  ...libraryMilliseconds,
  /** Receiving the headers of a request. */
  headers: 10_000,
  /** Receiving the headers and the body. */
  receive: 14_000,
  /** Receiving the rest of a body after the response. */
  bodyRest: 5_000,
  /** Interval of checking the limits of headers and requests. */
  receiveCheck: 1_000,
  /** Receiving a request of relay or vault. */
  upload: 3_600_000,
  /** Content of 8 MiB at the minimum rate: 34 minutes. */
  slowestUpload: (8_388_608 / MIN_BYTES_PER_SECOND) * 1_000,
  rateGrace: RATE_GRACE,
  /**
   * Time for which an upload may be slower than the minimum rate if it was faster before. Without any byte, the
   * connection ends earlier, after `receive`.
   */
  uploadPause: 15_000,
  /**
   * Pause of a download. The operating systems of server and client together buffer up to 10 MB, which a client at
   * 100 kB/s reads in 100 s.
   */
  downloadPause: 120_000,
  /** Buffered start of a vault list, 1 MiB at the minimum rate. */
  slowestListStart: RATE_GRACE + (MAX_BUFFERED_LIST_BYTES / MIN_BYTES_PER_SECOND) * 1_000,
  /** Time that a download of an object needs in addition to its own bytes, with a margin for reads and clocks. */
  downloadDelay: 300_000,
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
  /** The age from which the file of an upload on another host is garbage. */
  abandonedFile: 86_400_000,
  /** A call to the IPFS node, and all calls together that restore the content of one response. */
  ipfsCall: 10_000,
  /** A call that lists pins. */
  ipfsList: 300_000,
  /** The wait of a request, and of a stop, for calls that change pins. */
  pinWait: 2_000,
  /** After a failed call, the time until a request may try again, and the maximum time between other attempts. */
  outageRequest: 5_000,
  outageRetry: 60_000,
  /** The maximum time until the next attempt of a pin task that failed for a reason of its own. */
  pinRetry: 3_600_000,
  /** The start of a response of the object storage, and the time in which another attempt may start. */
  s3Answer: 5_000,
  s3Retries: 8_000,
  /** Pause between two attempts to reach an engine at the start, and the wait of a command for its database. */
  engineRetry: 1_000,
  engineWait: 60_000,
  /** The answer of `/ready`. */
  readiness: 2_000,
  dependencyCheck: 1_800,
  /** Reading the reference clock, which is one of the checks. */
  clockRead: 1_500,
  /** A call of doctor to a dependency, and all its requests to a running service. */
  doctorCall: 3_000,
  doctorService: 10_000,
  /** A statement of a copy, for which no client waits, and the transaction of a backup or a restore. */
  copyStatement: 60_000,
  dump: 86_400_000
}

/** Chains of time limits. Each is shorter than the next. A test asserts it. */
export const limitOrder: readonly (readonly (keyof typeof limitMilliseconds)[])[] = [
  ...libraryOrder,
  // Node accepts a limit for the headers only up to that for the request, and checks both at an interval.
  ['receiveCheck', 'headers', 'receive'],
  // The rest of a refused body gets less time than a body.
  ['bodyRest', 'receive'],
  // Otherwise an upload at the minimum rate would not arrive in time.
  ['slowestUpload', 'upload'],
  // A silent upload ends earlier than one that is only slow. Both outlast the grace period.
  ['rateGrace', 'receive', 'uploadPause'],
  // Otherwise an object could be deleted while a client pauses its download.
  ['downloadPause', 'downloadDelay'],
  // Otherwise an object could be deleted while a list is read no slower than at the minimum rate.
  ['slowestListStart', 'downloadDelay'],
  // Otherwise the server closes a connection at the same time as the client sends a request.
  ['clientReuse', 'keepAlive'],
  // A stop ends its parts one after another, and itself before a supervisor kills the process.
  ['pinWait', 'stopWork', 'stopRequests', 'stopServer', 'stopProcess', 'supervisor'],
  // Otherwise a second worker could call the node during the first call.
  ['pinWait', 'ipfsCall', 'pinLease', 'pinDoubt'],
  // A list of all pins takes longer than a call for one cid.
  ['ipfsCall', 'ipfsList'],
  // Otherwise a request could not learn earlier than the regular attempts that an outage is over.
  ['pinWait', 'outageRequest', 'outageRetry', 'pinRetry'],
  // Otherwise the collector could delete an object that is written no faster than a body may arrive.
  ['slowestUpload', 'abandonedUpload'],
  // Otherwise a start could delete the file of an upload that another host still receives.
  ['upload', 'abandonedFile'],
  // Otherwise no attempt would follow one that the storage did not answer.
  ['s3Answer', 's3Retries'],
  // Otherwise a command would give up before its second attempt.
  ['engineRetry', 'engineWait'],
  // `/ready` answers in time, also if a dependency does not.
  ['clockRead', 'dependencyCheck', 'readiness'],
  // Otherwise a command reports a service as faulty that keeps its own limits.
  ['dependencyCheck', 'doctorCall', 'doctorService'],
  ['readiness', 'doctorService'],
  // No client waits for these statements, and a dump consists of many.
  ['databaseVerb', 'copyStatement', 'dump']
]
