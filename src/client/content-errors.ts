import { DidAuthClientError, type ClientErrorDetails } from './errors.js'

/** What is wrong with content. `name`: of a key of the vault; `plain`: not encrypted where it should be. */
export type ContentProblem =
  'link' | 'key' | 'mismatch' | 'notFound' | 'takenDown' | 'missing' | 'tooLarge' | 'full' | 'name' | 'plain'

/** What a user is told: each text ends with what to do. */
const problems: Readonly<Partial<Record<ContentProblem, string>>> = {
  link: 'The link is not whole. Copy all of it again.',
  key: 'The content was changed, or the key is wrong. Ask for it again.',
  mismatch: 'The content was changed. Ask for it again.',
  notFound: 'The content is not there. Ask for it again.',
  takenDown: 'The content was taken down. Ask for another.',
  missing: 'The content was lost. Ask for it again.',
  tooLarge: 'The content is too large. Make it smaller.',
  full: 'The service is full. Delete some content.'
}

/** The service works, and the content is the problem: see `reason`. */
export class ContentError extends DidAuthClientError {
  readonly reason: ContentProblem

  constructor(reason: ContentProblem, details?: ClientErrorDetails) {
    super('ERR_CONTENT', problems[reason] ?? '', details)
    this.reason = reason
  }
}

/** What statuses say of the content. */
export const contentProblems: Readonly<Record<number, ContentProblem>> = {
  404: 'notFound',
  413: 'tooLarge',
  451: 'takenDown',
  502: 'missing',
  507: 'full'
}
