import type { IncomingMessage, ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'

/** Verbs of a node, as in the paths of its RPC API. */
export const ipfsVerbs = ['add', 'cat', 'pin/ls', 'pin/rm', 'version'] as const
export type IpfsVerb = (typeof ipfsVerbs)[number]

/** Answer of a node. */
export interface Answer {
  status: number
  type: string
  body: Buffer
}

/** Content that a faulty answer has in place of the requested one. */
export const otherBytes = Buffer.from('other bytes')
/** CID of {@link otherBytes}. */
export const otherCid = 'bafkreifd5lk65wwv36bdddcrnbo3yhaupi3nd74fqt6ifxtlbdil6y5hsu'

/** Faults of a node that is unavailable or broken. The request is not executed. */
export const faultsBefore = [
  'refuses',
  'resets',
  'is silent',
  'answers 401',
  'answers 500',
  'answers 503',
  'answers 404 without end',
  'answers 500 without end',
  'redirects',
  'speaks no HTTP'
] as const

/** Faults of the answer only. The request is executed, but its client cannot know that. */
export const faultsAfter = [
  'is slow',
  'is silent after the head',
  'drips',
  'cuts off',
  'answers nothing',
  'answers another cid',
  'answers no cid',
  'answers garbage',
  'answers a page',
  'answers other bytes',
  'answers a line without end',
  'answers lines without end',
  'answers a compressed line'
] as const

export type IpfsFault = (typeof faultsBefore)[number] | (typeof faultsAfter)[number]

/** All faults, for tables. */
export const ipfsFaults: readonly IpfsFault[] = [...faultsBefore, ...faultsAfter]

/** Request that a fault answers, and the values that it needs. */
export interface FaultSurroundings {
  req: IncomingMessage
  res: ServerResponse
  verb: IpfsVerb
  /** Correct answer; empty if the request was not executed. */
  answer: Answer
  slowMilliseconds: number
  redirectUrl: string
}

const HALF_MEBIBYTE = 524_288
const JSON_TYPE = 'application/json'

/** Functions that answer a request with a fault. 'refuses' and 'speaks no HTTP' happen before there is a request. */
export const answerWithFault: Readonly<Record<IpfsFault, (around: FaultSurroundings) => void>> = {
  refuses: ({ res }) => res.destroy(),
  'speaks no HTTP': ({ res }) => res.destroy(),
  resets: ({ req }) => req.socket.resetAndDestroy(),
  'is silent': () => undefined,
  'answers 401': ({ res }) => send(res, { status: 401, type: 'text/plain', body: Buffer.from('401 - Unauthorized') }),
  'answers 500': ({ res }) => {
    const body = Buffer.from('{"Message":"no space left on device","Code":0,"Type":"error"}')
    send(res, { status: 500, type: JSON_TYPE, body })
  },
  'answers 503': ({ res }) =>
    send(res, { status: 503, type: 'text/html', body: Buffer.from('<h1>503 Service Unavailable</h1>') }),
  'answers 404 without end': ({ res }) =>
    sendForever(res.writeHead(404, { 'Content-Type': 'text/html' }), Buffer.alloc(HALF_MEBIBYTE, 'x')),
  'answers 500 without end': ({ res }) =>
    sendForever(res.writeHead(500, { 'Content-Type': JSON_TYPE }), Buffer.alloc(HALF_MEBIBYTE, ' ')),
  redirects: ({ res, redirectUrl }) => res.writeHead(307, { Location: redirectUrl }).end(),
  'is slow': ({ res, answer, slowMilliseconds }) => {
    const timer = setTimeout(() => send(res, answer), slowMilliseconds)
    res.once('close', () => clearTimeout(timer))
  },
  'is silent after the head': ({ res, answer }) =>
    res.writeHead(answer.status, { 'Content-Type': answer.type }).flushHeaders(),
  drips: ({ res, answer }) => {
    res.writeHead(answer.status, { 'Content-Type': answer.type }).flushHeaders()
    const timer = setInterval(() => res.write(' '), 20)
    res.once('close', () => clearInterval(timer))
  },
  'cuts off': ({ res, answer: { status, type, body } }) => {
    res.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length + 1 })
    res.write(body.subarray(0, body.length >> 1), () => res.destroy())
  },
  'answers nothing': ({ res, answer }) => send(res, { ...answer, body: Buffer.alloc(0) }),
  'answers another cid': ({ res, verb, answer }) => send(res, { ...answer, body: createOtherBody(verb, answer.body) }),
  'answers no cid': ({ res, verb, answer }) =>
    send(res, verb === 'cat' ? answer : { ...answer, body: Buffer.from('{"Name":"content","Size":"12"}\n') }),
  'answers garbage': ({ res, answer }) => send(res, { ...answer, body: Buffer.from('{"Hash":"bafk\u0000') }),
  'answers a page': ({ res }) =>
    send(res, { status: 200, type: 'text/html', body: Buffer.from('<!doctype html><title>Welcome</title>') }),
  'answers other bytes': ({ res, verb, answer }) =>
    send(res, verb === 'cat' ? { ...answer, body: otherBytes } : answer),
  'answers a line without end': ({ res }) =>
    sendForever(res.writeHead(200, { 'Content-Type': JSON_TYPE }), Buffer.alloc(HALF_MEBIBYTE, 'x')),
  'answers lines without end': ({ res }) => {
    const line = `{"Name":"content","Hash":"${otherCid}","Cid":"${otherCid}","Type":"recursive","Pins":[]}\n`
    sendForever(res.writeHead(200, { 'Content-Type': JSON_TYPE }), Buffer.from(line.repeat(4_000)))
  },
  'answers a compressed line': ({ res }) => {
    // 256 MiB, as 256 complete gzip members.
    const part = gzipSync(Buffer.alloc(1_048_576, ' '))
    const body = Buffer.concat(Array.from({ length: 256 }, () => part))
    res.writeHead(200, { 'Content-Type': JSON_TYPE, 'Content-Encoding': 'gzip', 'Content-Length': body.length })
    res.end(body)
  }
}

/** Sends a complete answer. */
export function send(res: ServerResponse, { status, type, body }: Answer): void {
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length }).end(body)
}

function createOtherBody(verb: IpfsVerb, body: Buffer): Buffer {
  if (verb === 'cat') return otherBytes
  return Buffer.from(body.toString().replaceAll(/baf[a-z2-7]{56}/g, otherCid))
}

/** Sends a chunk repeatedly, as fast as the client reads it. */
export function sendForever(res: ServerResponse, chunk: Buffer): void {
  const sendMore = (): void => {
    while (!res.destroyed && res.write(chunk));
  }
  res.on('drain', sendMore)
  sendMore()
}
