import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { DidAuthConfig } from 'express-did-auth'
import { logIn } from './app-client.js'
import { testApp, type TestApp } from './test-app.js'
import { lossyProxy } from './lossy-proxy.js'
import { RefreshingClient } from './refreshing-client.js'
import { walletOf } from './wallet.js'

/** What a run through a proxy that loses every second answer came to. */
export interface LostAnswers {
  refreshed: number
  lost: number
  loggedOut: number
  /** Second holders of a refresh token: how many there were, and how many of their sessions were revoked. */
  planted: number
  noticed: number
}

/**
 * Refreshes through a proxy that loses every second answer; now and then somebody else holds a copy of the refresh token
 * and uses it, before its owner or after.
 *
 * @param refreshes - in all, spread over 7 sessions: each loses every second answer
 * @param plants - sessions of which a second holder uses the refresh token
 */
export async function runLostAnswers(
  { refreshes, plants }: { refreshes: number; plants: number },
  config: Partial<DidAuthConfig> = {}
): Promise<LostAnswers> {
  let noticed = 0
  const onSecurityEvent: DidAuthConfig['onSecurityEvent'] = ({ type }) => {
    if (type === 'refresh-token-reused') noticed += 1
  }
  const test = await testApp({ ...config, onSecurityEvent })
  const server = createServer(test.app)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const proxy = await lossyProxy(port, (number) => number % 2 === 0)
  try {
    const clients = await Promise.all(
      Array.from({ length: 7 }, async (_, number) => clientOf(test, proxy.port, number + 1))
    )
    let [refreshed, loggedOut] = [0, 0]
    for (let number = 0; refreshed < refreshes && loggedOut === 0; number += 1) {
      const outcome = await clients[number % clients.length]!.refresh()
      if (outcome === 'refreshed') refreshed += 1
      if (outcome === 'logged out') loggedOut += 1
      // Far beyond the grace: only the key tells a repeat from a theft.
      test.clock.seconds += 61
    }
    for (let number = 0; number < plants; number += 1) await plant(test, { port, proxyPort: proxy.port }, number)
    return {
      refreshed,
      lost: proxy.lost(),
      loggedOut,
      planted: plants,
      noticed
    }
  } finally {
    proxy.close()
    server.closeAllConnections()
    server.close()
    await test.requireDid.close()
  }
}

async function clientOf({ app }: TestApp, port: number, number: number): Promise<RefreshingClient> {
  return new RefreshingClient(port, (await logIn(app, walletOf(number))).refreshToken)
}

/** Owner and second holder use one refresh token a minute apart, in either order, after a few refreshes of the owner. */
async function plant(test: TestApp, { port, proxyPort }: { port: number; proxyPort: number }, number: number) {
  const owner = await clientOf(test, proxyPort, 100 + number)
  for (let refresh = 0; refresh < number % 4; refresh += 1) await untilAnswered(owner)
  const second = new RefreshingClient(port, owner.refreshToken)
  const order = number % 2 === 0 ? [owner, second] : [second, owner]
  for (const one of order) {
    await untilAnswered(one)
    test.clock.seconds += 60
  }
}

async function untilAnswered(client: RefreshingClient): Promise<void> {
  while ((await client.refresh()) === 'unavailable');
}
