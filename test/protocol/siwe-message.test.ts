import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { createSiweMessage, parseSiweMessage as parseByViem } from 'viem/siwe'
import type { DidAuthError } from '../../src/errors.js'
import { assertInTime, assertOwnSite, parseSiweMessage } from '../../src/protocol/siwe-message.js'
import { judgedMessages } from '../support/fixtures/siwe-messages.js'
import { sampled } from '../support/fixtures/time-factor.js'

const ADDRESS = '0x7E5F4552091A69125d5dfCb7b8C2659029395Bdf'
const NONCE = '0abac2fe00112233445566778899aabbccddeeff0123456789abcdef01234567'
const HEADER = 'service.example wants you to sign in with your Ethereum account:'

/** The lines of a message with every field; line 1 is the first. */
const LINES = [
  `https://${HEADER}`,
  ADDRESS,
  '',
  'I accept the Terms of Service: https://service.example/tos',
  '',
  'URI: https://service.example/login',
  'Version: 1',
  'Chain ID: 30',
  `Nonce: ${NONCE}`,
  'Issued At: 2027-01-15T08:00:00.000Z',
  'Expiration Time: 2027-01-15T09:00:00+01:00',
  'Not Before: 2027-01-15T07:59:00Z',
  'Request ID: order-7',
  'Resources:',
  '- ipfs://bafybeiemxf5abjwjbikoz4mc3a3dla6ual3jsgpdr4cjr3oz3evfyavhwq/',
  '- urn:recap:eyJhdHQiOnt9fQ=='
]
const TEXT = LINES.join('\n')
const FIELDS = {
  scheme: 'https',
  domain: 'service.example',
  address: ADDRESS,
  statement: 'I accept the Terms of Service: https://service.example/tos',
  uri: 'https://service.example/login',
  chainId: 30,
  nonce: NONCE,
  issuedAt: '2027-01-15T08:00:00.000Z',
  expirationTime: '2027-01-15T09:00:00+01:00',
  notBefore: '2027-01-15T07:59:00Z',
  requestId: 'order-7',
  resources: ['ipfs://bafybeiemxf5abjwjbikoz4mc3a3dla6ual3jsgpdr4cjr3oz3evfyavhwq/', 'urn:recap:eyJhdHQiOnt9fQ==']
}
/** The message with required lines only. */
const SHORT = [HEADER, ADDRESS, '', '', ...LINES.slice(5, 10)]

/** The message with one line replaced; lines count from 1. */
const withLine = (number: number, ...lines: string[]): string =>
  [...LINES.slice(0, number - 1), ...lines, ...LINES.slice(number)].join('\n')

/** Returns code and reason of a refusal. */
function catchRefusal(work: () => unknown): { code: string; field?: unknown; line?: unknown } | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    const { code, reason } = error as DidAuthError
    return { code, field: reason?.field, ...(reason?.line !== undefined && { line: reason.line }) }
  }
}

describe('parseSiweMessage', () => {
  it('returns every field in its spelling, and only existing ones', () => {
    expect(parseSiweMessage(TEXT)).toEqual(FIELDS)
    const { domain, address, uri, chainId, nonce, issuedAt } = FIELDS
    expect(parseSiweMessage(SHORT.join('\n'))).toEqual({ domain, address, uri, chainId, nonce, issuedAt })
  })

  it('accepts CRLF if all lines end with it', () => {
    expect(parseSiweMessage(LINES.join('\r\n'))).toEqual(FIELDS)
    expect(catchRefusal(() => parseSiweMessage(TEXT.replace('\n', '\r\n')))).toMatchObject({ code: 'ERR_MESSAGE' })
    expect(catchRefusal(() => parseSiweMessage(LINES.join('\r')))).toMatchObject({ code: 'ERR_MESSAGE', line: 1 })
  })

  it.each([
    ['one blank line in place of a statement, as AppKit', [HEADER, ADDRESS, '', ...LINES.slice(5, 10)]],
    ['two, as the EIP', SHORT],
    ['three, as siwe for an empty one', [HEADER, ADDRESS, '', '', '', ...LINES.slice(5, 10)]]
  ])('accepts %s', (_how, lines) => {
    expect(parseSiweMessage(lines.join('\n'))).toMatchObject({ domain: 'service.example', nonce: NONCE })
    expect(parseSiweMessage(lines.join('\n')).statement).toBeUndefined()
  })

  it.each([
    ['any name of an account', withLine(1, LINES[0]!.replace('Ethereum', 'OP Mainnet')), {}],
    ['an address in lower case', withLine(2, ADDRESS.toLowerCase()), { address: ADDRESS.toLowerCase() }],
    ['a statement in any script', withLine(4, 'Ich stimme zu: 同意 👩‍🚀'), { statement: 'Ich stimme zu: 同意 👩‍🚀' }],
    ['a statement that looks like a field', withLine(4, 'URI: https://evil.example'), { uri: FIELDS.uri }],
    ['2,048 characters of a statement', withLine(4, 'x'.repeat(2_048)), { statement: 'x'.repeat(2_048) }],
    ['the chain as CAIP-2', withLine(8, 'Chain ID: eip155:137'), { chainId: 137 }],
    ['a request id of 256 characters, or none', withLine(13, `Request ID: ${'r'.repeat(256)}`), {}],
    ['an empty request id', withLine(13, 'Request ID: '), { requestId: '' }],
    ['no resource behind its label', LINES.slice(0, 14).join('\n'), { resources: [] }],
    ['20 resources', [...LINES.slice(0, 14), ...Array<string>(20).fill('- urn:x')].join('\n'), {}]
  ])('reads %s', (_what, text, fields) => expect(parseSiweMessage(text)).toMatchObject(fields))

  it.each([
    [
      'AppKit',
      [
        `app.example wants you to sign in with your Rootstock Mainnet account:`,
        ADDRESS,
        '',
        'URI: https://app.example'
      ],
      'eip155:30'
    ],
    [
      'WalletConnect, whose statement names the abilities of a ReCap',
      [
        `app.example wants you to sign in with your Ethereum account:`,
        ADDRESS,
        '',
        "Hello I further authorize the stated URI to perform the following actions on my behalf: (1) 'request': 'personal_sign' for 'eip155'.",
        '',
        'URI: https://app.example'
      ],
      '30'
    ]
  ])('accepts a message of the formatter of %s', (_whose, head, chain) => {
    const tail = ['Version: 1', `Chain ID: ${chain}`, `Nonce: ${NONCE}`, 'Issued At: 2027-01-15T08:00:00.000Z']
    const resources = ['Resources:', '- urn:recap:eyJhdHQiOnsiZWlwMTU1Ijp7InJlcXVlc3QvcGVyc29uYWxfc2lnbiI6W3t9XX19fQ==']
    const text = [...head, ...tail, ...resources].join('\n')
    expect(parseSiweMessage(text)).toMatchObject({ domain: 'app.example', chainId: 30, uri: 'https://app.example' })
  })

  it.each([
    ['no header', LINES.slice(1).join('\n'), 'domain', 1],
    ['text before', `\n${TEXT}`, 'domain', 1],
    ['a byte order mark', `\ufeff${TEXT}`, 'domain', 1],
    ['no domain', withLine(1, HEADER.replace('service.example', '')), 'domain', 1],
    ['a domain with a user', withLine(1, HEADER.replace('service', 'user@service')), 'domain', 1],
    ['a domain with a path', withLine(1, HEADER.replace(' wants', '/x wants')), 'domain', 1],
    ['a name of an account of 41 characters', withLine(1, HEADER.replace('Ethereum', 'x'.repeat(41))), 'domain', 1],
    ['a name with a colon', withLine(1, HEADER.replace('Ethereum', 'a:b')), 'domain', 1],
    ['the header twice', withLine(1, LINES[0]!, LINES[0]!), 'address', 2],
    ['an address of 39 digits', withLine(2, ADDRESS.slice(0, -1)), 'address', 2],
    ['an address without 0x', withLine(2, ADDRESS.slice(2)), 'address', 2],
    ['two addresses', withLine(2, ADDRESS, ADDRESS), 'statement', 3],
    ['no blank line behind the address', withLine(3), 'statement', 3],
    ['four blank lines', [HEADER, ADDRESS, '', '', '', '', ...LINES.slice(5, 10)].join('\n'), 'URI', 6],
    ['a statement of 2,049 characters', withLine(4, 'x'.repeat(2_049)), 'statement', 4],
    ['a statement with a control character', withLine(4, 'a\u0007b'), 'statement', 4],
    ['a statement with a line separator', withLine(4, 'a\u2028b'), 'statement', 4],
    ['a statement with half a character', withLine(4, 'a\ud83d'), 'statement', 4],
    ['a statement of two lines', withLine(4, 'a', 'b'), 'URI', 4],
    ['no URI', withLine(6), 'URI', 6],
    ['a URI without scheme', withLine(6, 'URI: service.example/login'), 'URI', 6],
    ['a URI with a space', withLine(6, 'URI: https://service.example/a b'), 'URI', 6],
    ['a URI with a backslash', withLine(6, String.raw`URI: https://service.example\@evil.example`), 'URI', 6],
    ['the URI twice', withLine(6, LINES[5]!, LINES[5]!), 'Version', 7],
    ['a label in another letter case', withLine(6, LINES[5]!.replace('URI', 'Uri')), 'URI', 6],
    ['a label without space', withLine(6, LINES[5]!.replace(': ', ':')), 'URI', 6],
    ['version 2', withLine(7, 'Version: 2'), 'Version', 7],
    ['no chain', withLine(8), 'Chain ID', 8],
    ['chain 0', withLine(8, 'Chain ID: 0'), 'Chain ID', 8],
    ['a chain in hexadecimal', withLine(8, 'Chain ID: 0x1e'), 'Chain ID', 8],
    ['a chain of another namespace', withLine(8, 'Chain ID: solana:1'), 'Chain ID', 8],
    ['a chain of 16 digits', withLine(8, `Chain ID: ${'9'.repeat(16)}`), 'Chain ID', 8],
    ['a nonce of 7 characters', withLine(9, 'Nonce: abcdefg'), 'Nonce', 9],
    ['a nonce with a dash', withLine(9, 'Nonce: abcd-efgh'), 'Nonce', 9],
    ['the nonce twice', withLine(9, LINES[8]!, LINES[8]!), 'Issued At', 10],
    ['nonce and chain exchanged', withLine(8, LINES[8]!, LINES[7]!), 'Chain ID', 8],
    ['no time of issue', withLine(10), 'Issued At', 10],
    ['a time of issue without offset', withLine(10, 'Issued At: 2027-01-15T08:00:00'), 'Issued At', 10],
    ['30 February', withLine(10, 'Issued At: 2027-02-30T08:00:00Z'), 'Issued At', 10],
    ['an end that is no time', withLine(11, 'Expiration Time: tomorrow'), 'Expiration Time', 11],
    ['an end behind the beginning', withLine(11, LINES[11]!, LINES[10]!), 'end', 12],
    ['a beginning that is no time', withLine(12, 'Not Before: 0'), 'Not Before', 12],
    ['a request id of 257 characters', withLine(13, `Request ID: ${'r'.repeat(257)}`), 'Request ID', 13],
    ['a request id with a space', withLine(13, 'Request ID: a b'), 'Request ID', 13],
    ['a resource without dash', withLine(15, LINES[14]!.slice(2)), 'Resources', 15],
    ['a resource that is no URI', withLine(15, '- resource1'), 'Resources', 15],
    ['21 resources', [...LINES.slice(0, 14), ...Array<string>(21).fill('- urn:x')].join('\n'), 'Resources', 35],
    ['resources on the line of their label', withLine(14, 'Resources: urn:x'), 'end', 14],
    ['a line feed at the end', `${SHORT.join('\n')}\n`, 'end', 10],
    ['text behind the resources', `${TEXT}\nP.S.`, 'Resources', 17],
    ['a field behind the resources', `${TEXT}\n${LINES[12]!}`, 'Resources', 17],
    ['a space at the end of a line', withLine(7, 'Version: 1 '), 'Version', 7],
    ['nothing', '', 'domain', 1]
  ])('refuses %s, and reports the line', (_what, text, field, line) =>
    expect(catchRefusal(() => parseSiweMessage(text))).toEqual({ code: 'ERR_MESSAGE', field, line })
  )

  it('accepts 8,192 bytes of UTF-8 and no more, even if each field is within its limit', () => {
    const sized = (bytes: number, letter: string): string => {
      const lines = [...LINES.slice(0, 14), '- urn:']
      const left = bytes - Buffer.byteLength(lines.join('\n'))
      return lines.join('\n') + letter.repeat(left)
    }
    expect(parseSiweMessage(sized(8_192, 'x')).resources).toHaveLength(1)
    expect(catchRefusal(() => parseSiweMessage(sized(8_193, 'x')))).toEqual({ code: 'ERR_MESSAGE', field: 'length' })
    const long = [...LINES.slice(0, 13), 'Resources:', ...Array<string>(3).fill(`- urn:${'x'.repeat(850)}`)]
    long[3] = '同'.repeat(2_000)
    expect(catchRefusal(() => parseSiweMessage(long.join('\n')))).toEqual({ code: 'ERR_MESSAGE', field: 'length' })
  })

  it('parses 1,000 messages of viem like viem', () =>
    fc.assert(
      fc.property(judgedMessages, (fields) => {
        const text = createSiweMessage(fields)
        const { issuedAt, expirationTime, notBefore, version: _version, ...rest } = parseByViem(text)
        const formatTime = (time?: Date): string | undefined => time?.toISOString()
        expect(parseSiweMessage(text)).toEqual({
          ...rest,
          issuedAt: formatTime(issuedAt),
          expirationTime: formatTime(expirationTime),
          notBefore: formatTime(notBefore)
        })
      }),
      { numRuns: sampled(200, 1_000) }
    ))

  it('refuses a message with one changed byte, or parses it like viem', () => {
    const bytes = Buffer.from(TEXT)
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.nat(255), (at, byte) => {
        const changed = Buffer.from(bytes)
        changed[at] = byte
        const text = changed.toString()
        let ours
        try {
          ours = parseSiweMessage(text)
        } catch (error) {
          expect((error as DidAuthError).code).toBe('ERR_MESSAGE')
          return
        }
        // Viem accepts one name of an account, no underscore in a host, and no lower-case t and z of RFC 3339.
        const upperCaseTime = ours.issuedAt.toUpperCase()
        const { uri, nonce, chainId, issuedAt } = parseByViem(text.replace(ours.issuedAt, upperCaseTime))
        const [first, address] = text.split('\n')
        expect(ours).toMatchObject({ address, uri, nonce, chainId })
        expect(new Date(upperCaseTime)).toEqual(issuedAt)
        expect(first).toContain(`${ours.domain} wants you to sign in with your `)
      }),
      { numRuns: sampled(300, 2_000) }
    )
  })
})

describe('assertOwnSite', () => {
  const isOwn = (domain: string): boolean => ['service.example', 'localhost:3000', '[::1]:3000'].includes(domain)
  const at = (changes: object) => () => assertOwnSite({ ...FIELDS, ...changes }, isOwn)

  it.each([
    [{}],
    [{ scheme: undefined }],
    [{ scheme: 'HTTPS', domain: 'Service.Example', uri: 'HTTPS://SERVICE.example:443' }],
    [{ scheme: 'http', domain: 'localhost:3000', uri: 'http://localhost:3000/' }],
    [{ scheme: 'http', domain: '[::1]:3000' }]
  ])('accepts %j', (changes) => expect(at(changes)).not.toThrow())

  it.each([
    [{ domain: 'evil.example' }, 'domain'],
    [{ domain: 'service.example:8443' }, 'domain'],
    [{ domain: 'service.example.evil.example' }, 'domain'],
    [{ domain: 'user@service.example' }, 'domain'],
    [{ scheme: 'http' }, 'scheme'],
    [{ scheme: 'ftp' }, 'scheme'],
    [{ uri: 'https://evil.example/' }, 'URI'],
    [{ uri: 'https://service.example@evil.example/' }, 'URI'],
    [{ uri: 'https://service.example:8443/' }, 'URI'],
    [{ uri: 'urn:did-auth-keyring:1' }, 'URI'],
    [{ uri: 'data:text/plain,service.example' }, 'URI'],
    [{ uri: 'javascript://service.example/%0aalert(1)' }, 'URI'],
    [{ uri: 'app://service.example/login' }, 'URI'],
    [{ uri: 'ws://service.example/' }, 'URI']
  ])('refuses %j', (changes, field) => expect(catchRefusal(at(changes))).toEqual({ code: 'ERR_MESSAGE_DOMAIN', field }))
})

describe('assertInTime', () => {
  // 2027-01-15T08:00:00Z
  const NOW = 1_800_000_000
  const end = { expirationTime: '2027-01-15T08:00:00Z', notBefore: undefined }
  const start = { expirationTime: undefined, notBefore: '2027-01-15T08:00:00Z' }

  const refusalAt = (message: Parameters<typeof assertInTime>[0], nowSeconds: number) =>
    catchRefusal(() => assertInTime(message, nowSeconds))

  it('tolerates 60 s of clock difference, after the end and before the beginning', () => {
    expect(refusalAt(end, NOW + 59)).toBeUndefined()
    expect(refusalAt(end, NOW + 60)).toEqual({ code: 'ERR_MESSAGE', field: 'Expiration Time' })
    expect(refusalAt(start, NOW - 60)).toBeUndefined()
    expect(refusalAt(start, NOW - 61)).toEqual({ code: 'ERR_MESSAGE', field: 'Not Before' })
  })

  it('accepts a message without times', () => expect(refusalAt({}, 0)).toBeUndefined())
})
