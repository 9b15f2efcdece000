import { describe, expect, it } from '@jest/globals'
import type { RequestListener, ServerResponse } from 'node:http'
import { systemClock } from '../../src/time.js'
import { startGuardWorker, startWorkerOfSource } from '../support/engines/workerd.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { startServer } from '../support/fixtures/client-error.js'
import { serviceWallet } from '../support/fixtures/fixtures.js'
import { until } from '../support/fixtures/until.js'
import { ORDERS, startIssuer } from '../support/servers/resource-tokens.js'
import { serviceUrl, testApp } from '../support/servers/test-app.js'

/** Machine that creates a key, gets a token, and shows it to its own guard. */
const MACHINE = `import { createMachineKey, machineToken } from './src/client/machine/index.js'
import { resourceTokenVerifier } from './src/verify/index.js'
export default {
  async fetch(request, { url, audience }, context) {
    const key = await createMachineKey()
    const { accessToken } = await machineToken({ url, ...key, resource: audience })
    const verify = resourceTokenVerifier({ issuer: url, audience })
    const guarded = new Request(request.url, { headers: { Authorization: 'Bearer ' + accessToken } })
    const { did } = await verify.request(guarded, { waitUntil: (work) => context.waitUntil(work) })
    return Response.json({ isSame: did === key.did })
  }
}`

describe('express-did-auth-client/machine in the Workers runtime', () =>
  it('gets a token, which resourceTokenVerifier accepts there', async () => {
    const { url } = await startIssuer({ machineLogin: true, clock: systemClock })
    const worker = await startWorkerOfSource(MACHINE, { url, audience: ORDERS })
    afterTest(() => worker.stop())
    expect(await (await fetch(worker.url)).json()).toEqual({ isSame: true })
  }))

describe('express-did-auth/verify in the Workers runtime', () => {
  it('refuses a token after a logout, by a list that arrives after the response of the request', async () => {
    const service = await testApp({ clock: systemClock, endedSessions: true, challengeExpirationTimeInSeconds: 86_400 })
    /** Requests for the list whose answers are held back; undefined: they are answered at once. */
    let held: (() => void)[] | undefined
    let closedEarly = 0
    const publish: RequestListener = (req, res: ServerResponse) => {
      const answer = (): void => (service.app as unknown as RequestListener)(req, res)
      res.on('close', () => (closedEarly += res.writableFinished ? 0 : 1))
      if (held === undefined) answer()
      else held.push(answer)
    }
    const url = `${await startServer(publish)}/.well-known/ended-sessions`
    const worker = await startGuardWorker({ issuer: serviceWallet.did, audience: serviceUrl, url })
    afterTest(() => worker.stop())
    const send = async (token: string): Promise<[number, unknown]> => {
      const response = await fetch(worker.url, { headers: { Authorization: `Bearer ${token}` } })
      return [response.status, await response.json()]
    }
    const [ended, active] = [await service.logIn(), await service.logIn()]
    expect(await send(ended.accessToken)).toEqual([200, { did: expect.stringMatching(/^did:ethr:/) }])
    await service.logOut(ended.accessToken).expect(200)
    const requests: (() => void)[] = (held = [])
    // The runtime cancels a fetch without `waitUntil` when its request has its response.
    await until(async () => (await send(active.accessToken))[0] === 200 && requests.length > 0)
    held = undefined
    for (const answer of requests) answer()
    await until(async () => (await send(ended.accessToken))[0] === 401)
    expect(await send(ended.accessToken)).toEqual([401, { code: 'ERR_SESSION_ENDED' }])
    expect((await send(active.accessToken))[0]).toBe(200)
    expect(closedEarly).toBe(0)
  })
})
