/**
 * Figures F1, F2, F3, F8, F12 and F15 over HTTP on the memory store, with Express 4 and 5:
 * `node --import tsx test/bench/figures-http.ts`, some minutes. Exits 1 when a goal is missed.
 */
import { spawnSync } from 'node:child_process'
import { Agent, get, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { logIn, signedLogin, type TestTokens } from '../support/app-client.js'
import { testApp, type TestApp } from '../support/test-app.js'
import { malformedRequests } from '../support/malformed-requests.js'
import { runMalformed } from '../support/malformed-run.js'
import { walletOf } from '../support/wallet.js'
import { reportFigure } from './report-figure.js'

/** One line of the table: what was measured, and whether the goal is met. */
interface Figure {
  figure: string
  name: string
  value: string
  isMet: boolean
}

const wallet = walletOf(1)
const open = { maxRequestsPerTimeSlot: Number.POSITIVE_INFINITY }

interface Answer {
  status: number
  body: string
}

/** Serves an application and gives `use` a function that posts JSON. */
async function serving<T>(
  { app }: TestApp,
  use: (
    post: (path: string, body: object, headers?: Record<string, string>) => Promise<Answer>,
    port: number
  ) => Promise<T>
): Promise<T> {
  const server: Server = app.listen(0)
  const { port } = server.address() as AddressInfo
  const post = async (path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(body)
    })
    return { status: response.status, body: await response.text() }
  }
  try {
    return await use(post, port)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const winnersOf = (answers: readonly Answer[]): Answer[] => answers.filter(({ status }) => status === 200)
const failuresOf = (answers: readonly Answer[]): number => answers.filter(({ status }) => status >= 500).length

async function refreshRace(rounds: number): Promise<Figure> {
  const test = await testApp(open)
  let good = 0
  let failures = 0
  await serving(test, async (post) => {
    for (let round = 0; round < rounds; round += 1) {
      const { refreshToken } = await logIn(test.app, wallet)
      const answers = await Promise.all(Array.from({ length: 50 }, () => post('/refresh-token', { refreshToken })))
      failures += failuresOf(answers)
      const winners = winnersOf(answers)
      const next = JSON.parse(winners[0]?.body ?? '{}') as TestTokens
      const works = await post('/refresh-token', { refreshToken: next.refreshToken })
      if (winners.length === 1 && works.status === 200) good += 1
    }
  })
  return {
    figure: 'F1',
    name: 'one refresh token 50 times at once: rounds with one winner whose tokens work',
    value: `${good}/${rounds}, ${failures} server errors`,
    isMet: good === rounds && failures === 0
  }
}

async function refreshAgainstLogout(rounds: number): Promise<Figure> {
  const test = await testApp(open)
  let escaped = 0
  await serving(test, async (post) => {
    for (let round = 0; round < rounds; round += 1) {
      const { accessToken, refreshToken } = await logIn(test.app, wallet)
      const requests = [
        () => post('/refresh-token', { refreshToken }),
        () => post('/logout', {}, { Authorization: `DIDAuth ${accessToken}` })
      ]
      if (round % 2 === 1) requests.reverse()
      const answers = await Promise.all(requests.map((send) => send()))
      const tokens = answers
        .filter(({ body }) => body.startsWith('{'))
        .map(({ body }) => JSON.parse(body) as TestTokens)
      for (const token of [refreshToken, ...tokens.map((each) => each.refreshToken)]) {
        if ((await post('/refresh-token', { refreshToken: token })).status !== 401) escaped += 1
      }
    }
  })
  return {
    figure: 'F2',
    name: `refresh racing logout, ${rounds} rounds: tokens that refresh afterwards`,
    value: String(escaped),
    isMet: escaped === 0
  }
}

async function loginRace(rounds: number): Promise<Figure> {
  const test = await testApp(open)
  let good = 0
  await serving(test, async (post) => {
    for (let round = 0; round < rounds; round += 1) {
      const login = await signedLogin(test.app, walletOf(round + 1))
      const answers = await Promise.all(Array.from({ length: 50 }, () => post('/auth', login)))
      const used = answers.filter(({ body }) => body === 'Invalid challenge response: used')
      if (winnersOf(answers).length === 1 && used.length === 49) good += 1
    }
  })
  return {
    figure: 'F3',
    name: 'one login signature 50 times at once: rounds with exactly one session',
    value: `${good}/${rounds}`,
    isMet: good === rounds
  }
}

/** All malformed requests; the log of the run, and what the process printed meanwhile, searched for secrets. */
async function malformed(): Promise<Figure[]> {
  const printed: string[] = []
  const streams = [process.stdout, process.stderr]
  const writes = streams.map((stream) => stream.write)
  for (const stream of streams) {
    stream.write = (chunk: unknown): boolean => {
      printed.push(String(chunk))
      return true
    }
  }
  const secrets: string[] = []
  const faults: string[] = []
  let sent = 0
  let isAlive = true
  try {
    for (const useCookies of [false, true]) {
      const test = await testApp({ ...open, useCookies })
      test.app.use((_req, res) => {
        res.status(404).send('no such route')
      })
      const tokens = await logIn((await testApp(open)).app, wallet)
      const others = await Promise.all(
        Array.from({ length: 18 }, async (_, index) => signedLogin(test.app, walletOf(index + 2)))
      )
      secrets.push(tokens.accessToken, tokens.refreshToken, ...others.map(({ sig }) => sig))
      await serving(test, async (post, port) => {
        for (const { sig } of others) {
          const good = { did: wallet.did, sig, ...tokens, credentialJwt: 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA' }
          const all = malformedRequests(good)
          const share = sig === others[0]?.sig ? all : all.slice(0, 20)
          const run = await runMalformed(port, share, 5_000)
          sent += run.sent
          faults.push(...run.faults)
        }
        isAlive &&= (await post('/auth', await signedLogin(test.app, wallet))).status === 200
      })
      printed.push(JSON.stringify(test.log))
    }
  } finally {
    streams.forEach((stream, index) => (stream.write = writes[index]!))
  }
  const found = secrets.filter((secret) => printed.some((text) => text.includes(secret)))
  return [
    {
      figure: 'F8',
      name: `malformed requests, ${sent}: 5xx, hangs over 5 s, stacks, HTML`,
      value: `${faults.length}${isAlive ? ', alive' : ', dead'}${faults
        .slice(0, 5)
        .map((fault) => `\n      ${fault}`)
        .join('')}`,
      isMet: faults.length === 0 && isAlive && sent >= 2000
    },
    {
      figure: 'F15',
      name: `planted secrets of ${secrets.length} found in logs`,
      value: String(found.length),
      isMet: found.length === 0
    }
  ]
}

/** Heap before and after many DIDs asked for a challenge, over 16 connections that stay open. */
async function memoryOfNaming(dids: number): Promise<Figure> {
  const test = await testApp({})
  return serving(test, async (_post, port) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 16 })
    let next = 0
    const ask = async (total: number): Promise<void> => {
      const end = next + total
      await Promise.all(
        Array.from({ length: 16 }, async () => {
          while (next < end) {
            const did = `did:ethr:rsk:0x${(next++).toString(16).padStart(40, '0')}`
            const status = await statusOf(agent, port, `/request-auth/${did}`)
            if (status !== 200) throw new Error(`expected 200, got ${String(status)}`)
          }
        })
      )
    }
    await ask(2_000)
    const before = heapMebibytes()
    await ask(dids)
    const more = heapMebibytes() - before
    agent.destroy()
    return {
      figure: 'F12',
      name: `${dids} DIDs asking for challenges: MiB more heap`,
      value: more.toFixed(1),
      isMet: more <= 50
    }
  })
}

function statusOf(agent: Agent, port: number, path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get({ agent, host: '127.0.0.1', port, path }, (response) => {
      response.resume().on('end', () => {
        resolve(response.statusCode)
      })
    }).on('error', reject)
  })
}

function heapMebibytes(): number {
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 2 ** 20
}

/** Runs all figures of one major; it is the process that decides what `express` means. */
async function measure(): Promise<void> {
  const figures = [
    await refreshRace(200),
    await refreshAgainstLogout(1000),
    await loginRace(100),
    ...(await malformed()),
    await memoryOfNaming(200_000)
  ]
  for (const { figure, name, value, isMet } of figures) reportFigure(figure, `${name}: ${value}`, isMet)
}

/** Lets `express` mean Express 4, for us and for the package. */
const EXPRESS_4 = `data:text/javascript,${encodeURIComponent(
  `import { register } from 'node:module'
   register('data:text/javascript,' + encodeURIComponent(
     "export const resolve = (name, context, next) => next(name === 'express' ? 'express4' : name, context)"))`
)}`

if (process.argv[2] === 'measure') {
  await measure()
} else {
  for (const major of [5, 4]) {
    console.log(`Express ${major}`)
    const hook = major === 4 ? ['--import', EXPRESS_4] : []
    const options = [...process.execArgv, ...hook, '--expose-gc', fileURLToPath(import.meta.url), 'measure']
    const { status } = spawnSync(process.execPath, options, { stdio: 'inherit' })
    if (status !== 0) process.exitCode = 1
  }
}
