import { describe, expect, it } from '@jest/globals'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { DidAuthError, memoryStore } from 'express-did-auth'
import { readEnv } from '../../../servers/config/read-env.js'
import type { Connections } from '../../../servers/content/connections.js'
import { createServerLog } from '../../../servers/observability/logger.js'
import { CloseStack, listenForServer } from '../../../servers/process/start-server.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { captureLog } from '../../support/fixtures/captured-log.js'
import { challengeSecret, serviceWallet } from '../../support/fixtures/fixtures.js'
import { until } from '../../support/fixtures/until.js'

describe('CloseStack', () =>
  it('closes everything once, one after another in reverse order, also if one fails', async () => {
    const closeStack = new CloseStack()
    const steps: string[] = []
    const createCloser = (name: string, failure?: Error) => async (): Promise<void> => {
      steps.push(`${name} begins`)
      await nextTurn()
      steps.push(`${name} ends`)
      if (failure !== undefined) throw failure
    }
    const failure = new Error('broken')
    closeStack.add(createCloser('first'))
    closeStack.add(createCloser('second', failure))
    closeStack.add(createCloser('third'))
    expect(await closeStack.close()).toEqual([failure])
    const expectedSteps = ['third', 'second', 'first'].flatMap((name) => [`${name} begins`, `${name} ends`])
    expect(steps).toEqual(expectedSteps)
    expect(await closeStack.close()).toEqual([])
    expect(steps).toEqual(expectedSteps)
  }))

/** Starts a server whose database becomes available when the test says so. */
function startServer(check?: () => Promise<unknown>) {
  const env = readEnv({ PORT: '0' }, 'auth', false)
  const { destination, log } = captureLog()
  const [drain, closeStack, steps] = [new AbortController(), new CloseStack(), [] as string[]]
  let makeAvailable = (): void => undefined
  const available = new Promise<void>((resolve) => (makeAvailable = resolve))
  const listenUrls = new Map<'auth' | 'relay' | 'vault', string>()
  const listening = listenForServer(
    {
      env,
      identity: { serviceDid: serviceWallet.did, challengeSecret } as never,
      log: createServerLog(env, false, destination),
      metrics: undefined,
      draining: drain.signal,
      connections: { whenAvailable: () => available, areRemote: false } as unknown as Connections,
      serviceUrls: new Map(),
      listenUrls,
      envFile: undefined,
      closeStack
    },
    {
      engine: {
        sessions: memoryStore(),
        dependencies: check ? [{ name: 'store', isNeeded: true, check }] : [],
        close: async () => void steps.push('engine closed')
      },
      build: () => app
    }
  )
  afterTest(() => closeStack.close())
  let answer = (): void => undefined
  const app = {
    listener: (_req: unknown, res: { end(text: string): unknown }) => {
      steps.push('request begins')
      answer = () => void res.end('answer')
    },
    ready: Promise.resolve(),
    close: async () => void steps.push('app closed')
  }
  const getUrl = async (): Promise<string> => {
    await until(() => listenUrls.has('auth'))
    return listenUrls.get('auth') ?? ''
  }
  const start = async () => {
    makeAvailable()
    const { serve } = await listening
    await serve(app)
  }
  const events = (): unknown[] => log().map(({ event }) => event)
  return { app, getUrl, start, drain, closeStack, steps, events, log, answer: () => answer() }
}

describe('listenForServer', () => {
  it('answers 200 to /health, and 503 to other requests, until the database is available', async () => {
    const { getUrl } = startServer()
    const url = await getUrl()
    const read = async (path: string): Promise<unknown> => {
      const response = await fetch(url + path)
      return [response.status, response.headers.get('retry-after')]
    }
    await until(async () => (await fetch(`${url}/health`)).status === 200)
    expect(await Promise.all(['/health', '/ready', '/request-auth'].map(read))).toEqual([
      [200, null],
      [503, null],
      [503, '1']
    ])
  })

  it('waits for a slow disk, says so once, and answers `starting` until it has answered', async () => {
    let answerCheck = (): void => undefined
    const disk = new Promise<void>((resolve) => (answerCheck = resolve))
    const { getUrl, start, events, log } = startServer(() => disk)
    let hasStarted = false
    const started = start().then(() => (hasStarted = true))
    const url = await getUrl()
    await until(() => events().includes('waiting'))
    const response = await fetch(`${url}/ready`)
    expect([response.status, await response.json()]).toMatchObject([503, { status: 'starting' }])
    expect(hasStarted).toBe(false)
    answerCheck()
    await started
    expect(log().filter(({ event }) => event === 'waiting' || event === 'ready')).toMatchObject([
      { event: 'waiting', variable: 'DATA_DIR', msg: 'waiting for the disk (DATA_DIR): no answer in time' },
      { event: 'ready' }
    ])
  })

  it('starts if the disk is slow again or busy, but not if SQLite reports a fault', async () => {
    const startWith = (code?: string): Promise<void> => {
      const cause = Object.assign(new Error('the store took too long'), code !== undefined && { code })
      const { app, start } = startServer(() => Promise.resolve())
      app.ready = Promise.reject(new DidAuthError('ERR_STORE', { cause }))
      app.ready.catch(() => undefined)
      return start()
    }
    await startWith()
    await startWith('SQLITE_BUSY')
    await expect(startWith('SQLITE_READONLY')).rejects.toMatchObject({ code: 'ERR_STORE' })
  })

  it('closes the application after the last response, and then its storage', async () => {
    const { getUrl, start, closeStack, steps, answer } = startServer()
    await start()
    const response = fetch(await getUrl())
    await until(() => steps.length === 1)
    const closed = closeStack.close()
    for (let turn = 0; turn < 20; turn += 1) await nextTurn()
    expect(steps).toEqual(['request begins'])
    answer()
    expect(await (await response).text()).toBe('answer')
    await closed
    expect(steps).toEqual(['request begins', 'app closed', 'engine closed'])
  })

  it('logs that it is ready, unless the process has begun to stop', async () => {
    const [first, second] = [startServer(), startServer()]
    second.drain.abort()
    for (const { start } of [first, second]) await start()
    expect([first.events(), second.events()]).toEqual([['ready'], []])
  })
})
