import fc from 'fast-check'

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,12}$/)
const domain = fc
  .tuple(word, fc.constantFrom('.example', '.co.example', '.dev', '.example:8443'))
  .map((parts) => parts.join(''))
const uri = fc
  .tuple(fc.constantFrom('https', 'http', 'app'), domain, fc.stringMatching(/^[\w\-.~!$&'()*+,;=:@/?]{0,40}$/))
  .map(([scheme, host, path]) => `${scheme}://${host}/${path}`)
const time = fc.date({ min: new Date('2001-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
const address = fc.stringMatching(/^[0-9a-f]{40}$/).map((digits) => `0x${digits}` as const)

/** Fields of messages that every library accepts. */
export const judgedMessages = fc.record(
  {
    address,
    chainId: fc.integer({ min: 1, max: 2 ** 31 }),
    domain,
    nonce: fc.stringMatching(/^[A-Za-z0-9]{8,64}$/),
    uri,
    version: fc.constant('1' as const),
    issuedAt: time,
    expirationTime: time,
    notBefore: time,
    requestId: fc.stringMatching(/^[\w\-.~]{1,64}$/),
    scheme: fc.constantFrom('https', 'http'),
    statement: fc.stringMatching(/^[A-Za-z][A-Za-z0-9 .,:'()!?-]{0,80}$/),
    resources: fc.array(uri, { minLength: 1, maxLength: 5 })
  },
  { requiredKeys: ['address', 'chainId', 'domain', 'nonce', 'uri', 'version', 'issuedAt'] }
)
