/**
 * F19: strangers at 100 requests a second (bad proofs, own issuers with huge or silent documents, pages that make browsers
 * send, connections that reset) beside the logins of others. One line; when it misses its goal, that sets the exit code.
 *
 * Four minutes: `npm run figures -- strangers [seconds of each]`
 */
import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { benchWallet } from './bench-wallet.js'
import { Connection } from './http-client.js'
import { median } from './median.js'

const SECONDS = Number(process.argv[2] ?? 8)
const ROUNDS = 3
const LOGINS_PER_SECOND = 30
const STRANGERS_PER_SECOND = 100
const MOST_RATIO = 2
/** What the sessions, challenge uses and remembered tokens of the others take; strangers add nothing. */
const MOST_MEBIBYTES = 20
const KINDS = ['proofs', 'issuers', 'pages', 'resets'] as const

const visitor = benchWallet(1)
let walletNumber = 1_000
let lockedOut = 0
const reasons = new Map<string, number>()

function start(script: string, args: string[], flags: string[] = []): ChildProcess {
  const file = fileURLToPath(new URL(script, import.meta.url))
  return fork(file, args, { execArgv: ['--import', 'tsx', ...flags] })
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, milliseconds))

function answerOf<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => {
      resolve(message as T)
    })
    child.once('exit', () => {
      reject(new Error('the server ended'))
    })
  })
}

async function heapMebibytes(server: ChildProcess): Promise<number> {
  const answer = answerOf<{ heapUsed: number }>(server)
  server.send('memory')
  return (await answer).heapUsed / 2 ** 20
}

/** Logs a user in from a network of the user's own, and answers how many milliseconds it took. */
async function logIn(idle: Connection[], port: number, number: number): Promise<number> {
  // Every second somebody who has the foreign page open.
  const isVisitor = number % LOGINS_PER_SECOND === 0
  const wallet = isVisitor ? visitor : benchWallet(walletNumber++)
  const address = isVisitor
    ? '10.255.0.1'
    : `10.${String(number >> 16)}.${String((number >> 8) & 255)}.${String(number & 255)}`
  const headers = `X-Forwarded-For: ${address}\r\n`
  const connection = idle.pop() ?? (await Connection.open(port))
  const startedAt = performance.now()
  const asked = await connection.post('/request-auth', { did: wallet.did }, headers)
  let outcome = `${asked.status} ${asked.body}`
  if (asked.status === 200) {
    const { challenge } = JSON.parse(asked.body) as { challenge: string }
    const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const answer = await connection.post('/auth', { did: wallet.did, sig }, headers)
    outcome = answer.status === 200 || answer.body.endsWith(': expired') ? '' : `${answer.status} ${answer.body}`
  }
  if (outcome !== '') {
    lockedOut += 1
    reasons.set(outcome, (reasons.get(outcome) ?? 0) + 1)
  }
  idle.push(connection)
  return performance.now() - startedAt
}

/** p99 of logins that begin at a steady rate, whether the ones before are answered or not. */
async function loginP99(port: number, seconds: number): Promise<number> {
  const idle: Connection[] = []
  const logins: Promise<number>[] = []
  const startedAt = performance.now()
  while (logins.length < LOGINS_PER_SECOND * seconds) {
    const due = ((performance.now() - startedAt) / 1_000) * LOGINS_PER_SECOND
    while (logins.length < due) logins.push(logIn(idle, port, logins.length))
    await pause(5)
  }
  const milliseconds = (await Promise.all(logins)).sort((a, b) => a - b)
  for (const connection of idle) connection.close()
  return milliseconds[Math.floor(milliseconds.length * 0.99)]!
}

const server = start('strangers-server.ts', [], ['--expose-gc'])
const { port } = await answerOf<{ port: number }>(server)
await loginP99(port, 3)
const heapBefore = await heapMebibytes(server)

/** Quiet and attacked by turns, because a machine is not equally fast all the time. */
async function measure(kind: string): Promise<{ ratio: number; text: string }> {
  const [quiet, attacked]: [number[], number[]] = [[], []]
  for (let round = 0; round < ROUNDS; round += 1) {
    quiet.push(await loginP99(port, SECONDS))
    const load = start('strangers-load.ts', [String(port), kind, String(STRANGERS_PER_SECOND)])
    // Its start is not what is measured, nor is what it leaves behind.
    await pause(1_500)
    attacked.push(await loginP99(port, SECONDS))
    load.kill()
    await pause(500)
  }
  const [before, beside] = [median(quiet), median(attacked)]
  return { ratio: beside / before, text: `${kind} ${before.toFixed(0)} → ${beside.toFixed(0)}` }
}

const runs = []
for (const kind of KINDS) runs.push(await measure(kind))
const heapMore = (await heapMebibytes(server)) - heapBefore
server.disconnect()

const ratio = Math.max(...runs.map((run) => run.ratio))
const isGood = ratio <= MOST_RATIO && lockedOut === 0 && heapMore <= MOST_MEBIBYTES
const refusals = [...reasons].map(([reason, count]) => ` (${String(count)} × ${reason})`).join('')
console.log(
  `F19  ${isGood ? 'ok  ' : 'MISS'} p99 of others' logins beside ${STRANGERS_PER_SECOND}/s: at most ${ratio.toFixed(2)} × quiet ` +
    `(${runs.map(({ text }) => text).join(', ')} ms); ${lockedOut} locked out${refusals}; ${heapMore.toFixed(1)} MiB more heap`
)
if (!isGood) process.exitCode = 1
