import type { SiweMessage } from './siwe-message.js'

/**
 * The text that a wallet signs to log in at `/siwe/verify`. The fields are taken as they are.
 *
 * @see EIP-4361, "ABNF Message Format"
 */
export function formatSiweMessage(fields: SiweMessage): string {
  const { scheme, domain, address, statement, resources } = fields
  const lines = [
    ['URI', fields.uri],
    ['Version', 1],
    ['Chain ID', fields.chainId],
    ['Nonce', fields.nonce],
    ['Issued At', fields.issuedAt],
    ['Expiration Time', fields.expirationTime],
    ['Not Before', fields.notBefore],
    ['Request ID', fields.requestId]
  ].filter(([, value]) => value !== undefined)
  return [
    `${scheme ? `${scheme}://` : ''}${domain} wants you to sign in with your Ethereum account:`,
    `${address}\n`,
    statement ? `${statement}\n` : '',
    ...lines.map(([name, value]) => `${name}: ${value}`),
    ...(resources?.length ? ['Resources:', ...resources.map((one) => `- ${one}`)] : [])
  ].join('\n')
}
