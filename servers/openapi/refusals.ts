import { errorStatuses, errorTexts, type DidAuthErrorCode } from 'express-did-auth'
import { serverErrors, type ServerErrorCode } from '../http/server-error.js'
import { headerRef, schemaRef, type Part } from './document.js'

type Code = DidAuthErrorCode | ServerErrorCode

/** Failures of the service itself, which every operation may answer. */
const OWN_FAILURES: readonly Code[] = ['ERR_STORE', 'ERR_BUSY', 'ERR_INTERNAL']

/** Refusals of content that is sent, and of content that is read: both servers keep it in one store. */
export const CONTENT = [
  'ERR_CONTENT',
  'ERR_CONTENT_TOO_LARGE',
  'ERR_JSON',
  'ERR_REQUEST_TIMEOUT',
  'ERR_TAKEN_DOWN',
  'ERR_STORAGE',
  'ERR_STORAGE_FULL'
] as const
export const FROM_NODE = [
  'ERR_CONTENT_MISSING',
  'ERR_IPFS_BAD_RESPONSE',
  'ERR_IPFS_UNAVAILABLE',
  'ERR_IPFS_TIMEOUT',
  'ERR_STORAGE'
] as const

/**
 * The answers to refusals, by status, each with its texts and codes as the tables of the code have them.
 *
 * @param codes - what the operation refuses beside failures of the service itself
 */
export function refusals(...codes: readonly Code[]): Record<string, Part> {
  const byStatus = new Map<number, Code[]>()
  for (const code of [...codes, ...OWN_FAILURES]) {
    const { status } = errorOf(code)
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return Object.fromEntries([...byStatus].map(([status, those]) => [String(status), refusal(status, those)]))
}

function refusal(status: number, codes: readonly Code[]): Part {
  const own = {
    ...(status === 401 && { 'WWW-Authenticate': { schema: { type: 'string', pattern: '^DIDAuth realm=".*"$' } } }),
    ...([429, 503, 504].includes(status) && { 'Retry-After': { schema: { type: 'string', pattern: '^[0-9]+$' } } }),
    ...(status === 412 && { ETag: headerRef('ETag') })
  }
  const problem = {
    allOf: [schemaRef('Problem'), { properties: { status: { const: status }, code: { enum: codes } } }]
  }
  return {
    description: codes.map((code) => `${errorOf(code).text} (${code})`).join(', '),
    headers: { 'Cache-Control': headerRef('NoStore'), ...own },
    content: {
      'text/plain': { schema: { type: 'string', maxLength: 300 }, example: errorOf(codes[0] ?? 'ERR_INTERNAL').text },
      'application/problem+json': { schema: problem }
    }
  }
}

function errorOf(code: Code): { status: number; text: string } {
  if (isServerError(code)) return { status: serverErrors[code][0], text: serverErrors[code][1] }
  return { status: errorStatuses[code], text: errorTexts[code] }
}

function isServerError(code: Code): code is ServerErrorCode {
  return Object.hasOwn(serverErrors, code)
}
