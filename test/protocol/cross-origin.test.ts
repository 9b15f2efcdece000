import { describe, expect, it } from '@jest/globals'
import { assertSameSite } from '../../src/protocol/cross-origin.js'
import { refusal } from '../support/fixtures/refusal.js'

const OWN = 'https://service.example'
const APP = 'https://app.example'
const trusted = new Set([OWN, APP])

/** Origin and Sec-Fetch-Site of a request, and whether it passes. */
const truthTable: [string | undefined, string | undefined, boolean][] = [
  [undefined, undefined, true],
  [undefined, 'same-origin', true],
  [undefined, 'none', true],
  [undefined, 'same-site', false],
  [undefined, 'cross-site', false],
  [undefined, 'Same-Origin', false],
  [undefined, 'same-origin, none', false],
  [undefined, '', false],
  [OWN, undefined, true],
  [OWN, 'same-origin', true],
  [OWN, 'cross-site', true],
  [APP, undefined, true],
  [APP, 'cross-site', true],
  ['null', undefined, false],
  ['null', 'same-origin', true],
  ['null', 'none', false],
  ['null', 'same-site', false],
  ['null', 'cross-site', false],
  ['null', 'same-origin, same-origin', false],
  ['null', '', false],
  ['https://evil.example', undefined, false],
  ['https://evil.example', 'cross-site', false],
  ['https://evil.example', 'same-site', false],
  ['https://evil.example', 'same-origin', true],
  ['https://evil.example', 'none', true],
  ['http://service.example', undefined, false],
  ['https://service.example:8443', undefined, false],
  ['https://service.example.evil.example', undefined, false],
  ['https://sub.service.example', undefined, false],
  ['https://service.example/', undefined, false],
  ['HTTPS://SERVICE.EXAMPLE', undefined, false],
  ['', undefined, false]
]

describe('assertSameSite', () => {
  it.each(truthTable)('judges POST with Origin %j and Sec-Fetch-Site %j: passes %j', (origin, site, passes) => {
    const guard = (): void => assertSameSite({ method: 'POST', headers: { origin, 'sec-fetch-site': site } }, trusted)
    if (passes) guard()
    else expect(guard).toThrow(refusal('ERR_CROSS_ORIGIN'))
  })

  it('judges a GET that opens a WebSocket, and one that its caller calls unsafe', () => {
    const judge = (origin: string, upgrade?: string, isUnsafe?: boolean) => (): void =>
      assertSameSite({ method: 'GET', headers: { origin, upgrade } }, trusted, isUnsafe)
    judge(OWN, 'websocket')()
    judge('https://evil.example', 'h2c')()
    for (const upgrade of ['websocket', 'WebSocket', 'h2c, websocket']) {
      expect(judge('https://evil.example', upgrade)).toThrow(refusal('ERR_CROSS_ORIGIN'))
    }
    expect(judge('https://evil.example', undefined, true)).toThrow(refusal('ERR_CROSS_ORIGIN'))
  })

  it.each(['GET', 'HEAD', 'OPTIONS'])('allows %s, which changes nothing', (method) => {
    assertSameSite({ method, headers: { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' } }, trusted)
  })
})
