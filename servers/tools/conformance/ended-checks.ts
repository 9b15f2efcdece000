import { addressOfDid, isEthrDid, isSignedBy, parseJwt } from 'express-did-auth/protocol'
import {
  computeSessionTag,
  ENDED_LIST_SECONDS,
  MAX_ENDED_LIST_BYTES,
  parseEndedSessions,
  parseHttpUrl,
  parseNamedKeys
} from 'express-did-auth/server-kit'
import { describe, readClaims, type Exchange, type ServiceUnderTest } from '../service-under-test.js'
import { assertStatus, assertThat, FOREIGN_ORIGIN, MAX_LISTING_SECONDS, NotApplicable, type Check } from './rules.js'

/** Number of attempts to read an unchanged list: other users may log out between two requests. */
const MAX_ETAG_ATTEMPTS = 3

/** Checks of the list of ended sessions, for services whose discovery document names one. */
export const endedChecks = {
  'ended-sessions-logout': async (service) => {
    const { iat } = readPayload(await readList(service))
    const session = await service.logIn()
    const { sid } = readClaims(session.accessToken)
    assertThat(typeof sid === 'string', 'the access token has no sid')
    const tag = computeSessionTag(service.options.curve, sid)
    await service.logOut(session)
    for (let seconds = 0; seconds <= MAX_LISTING_SECONDS; seconds += 1) {
      const { ended } = readPayload(await readList(service, `?after=${String(iat)}`))
      if (Array.isArray(ended) && ended.includes(tag)) return
      await service.options.wait?.(1)
    }
    assertThat(false, `the list does not contain the session ${MAX_LISTING_SECONDS} s after its logout`)
  },
  'ended-sessions-form': async (service) => {
    const exchange = await readList(service)
    const type = exchange.headers.get('content-type') ?? ''
    assertThat(/^application\/jwt\b/i.test(type), `${describe(exchange)} as ${type}, expected application/jwt`)
    const { iss, aud, iat, exp } = readPayload(exchange)
    const header = JSON.stringify(readClaims(exchange.text, 0))
    const shown = `header ${header}, iss ${String(iss)}, aud ${String(aud)}`
    const { serviceDid, serviceUrl } = service.discovery
    // The times are those of the service, because its clock and the signature have checks of their own.
    const [issuers, audience, nowSeconds] = [[String(serviceDid)], String(serviceUrl), Number(iat)]
    const expected = { issuers, audience, after: undefined, lastUntil: undefined, nowSeconds }
    const list = parseEndedSessions(exchange.text, expected)
    assertThat(list !== undefined, `the list is not valid: ${shown}`)
    const seconds = Number(exp) - Number(iat)
    assertThat(seconds <= ENDED_LIST_SECONDS, `the list is valid for ${seconds} s`)
  },
  'ended-sessions-signature': async (service) => {
    const { serviceDid } = service.discovery
    if (typeof serviceDid !== 'string' || !isEthrDid(serviceDid))
      throw new NotApplicable('serviceDid in the discovery document is not a did:ethr')
    const { curve } = service.options
    const exchange = await readList(service)
    const jwt = parseJwt(exchange.text, MAX_ENDED_LIST_BYTES)
    const verify = parseNamedKeys(curve, [addressOfDid(serviceDid, curve).slice(2)])
    const ownKey = { sha256: (data: string | Uint8Array) => curve.sha256(data), verify }
    const isSigned = jwt !== undefined && isSignedBy(ownKey, jwt, new Uint8Array())
    assertThat(isSigned, `the key of ${serviceDid} did not sign the list`)
  },
  'ended-sessions-cors': async (service) => {
    const { headers } = await readList(service, '', { Origin: FOREIGN_ORIGIN })
    const allowed = headers.get('access-control-allow-origin') ?? ''
    const problem = `a page of ${FOREIGN_ORIGIN} may not read the list: Access-Control-Allow-Origin "${allowed}"`
    assertThat(['*', FOREIGN_ORIGIN].includes(allowed), problem)
  },
  'ended-sessions-after': async (service) => {
    for (const after of ['', 'x', '-1', '1.5']) {
      const exchange = await service.send('GET', `${findListPath(service)}?after=${after}`)
      assertStatus(exchange, 400, `after=${after}`)
    }
  },
  'ended-sessions-etag': async (service) => {
    for (let attempt = 1; ; attempt += 1) {
      const etag = (await readList(service)).headers.get('etag')
      assertThat(etag !== null, 'the list has no ETag')
      const exchange = await service.send('GET', findListPath(service), { headers: { 'If-None-Match': etag } })
      if (exchange.status === 304) return
      if (attempt === MAX_ETAG_ATTEMPTS) assertStatus(exchange, 304, 'a request with the ETag of the list')
    }
  }
} satisfies Record<string, Check>

/** Whether the discovery document of a service names a list of ended sessions. */
export function hasEndedSessions({ discovery }: ServiceUnderTest): boolean {
  return discovery.ended_sessions_uri !== undefined
}

async function readList(service: ServiceUnderTest, query = '', headers = {}): Promise<Exchange> {
  const exchange = await service.send('GET', `${findListPath(service)}${query}`, { headers })
  assertStatus(exchange, 200, 'the list of ended sessions')
  return exchange
}

/** Finds the path of the list below the tested URL. The host in the discovery document may be that of a proxy. */
function findListPath({ discovery, options: { url } }: ServiceUnderTest): string {
  const { ended_sessions_uri: uri } = discovery
  const listUrl = parseHttpUrl(String(uri))
  assertThat(listUrl !== undefined, `ended_sessions_uri is not an http URL: ${String(uri)}`)
  const basePath = url.pathname.replace(/\/$/, '')
  const { pathname } = listUrl
  return pathname.startsWith(`${basePath}/`) ? pathname.slice(basePath.length) : pathname
}

const readPayload = ({ text }: Exchange): Record<string, unknown> => parseJwt(text, MAX_ENDED_LIST_BYTES)?.payload ?? {}
