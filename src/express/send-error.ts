import type { Request, Response } from 'express'
import { createErrorAnswerer, type AnswerError, type ErrorAnswererOptions } from '../http/answer-error.js'
import { ExpressRequest, sendAnswer } from './express-routes.js'

/** Answers a request with an error, unless another answer has been started. */
export type SendError = (req: Request, res: Response, error: unknown) => void

/** Creates the sender of a server's errors. A started answer is the one that failed: its connection is closed. */
export function createErrorSender(options: ErrorAnswererOptions): SendError {
  const answerError = createErrorAnswerer(options)
  return (req, res, error) => {
    const isStarted = res.headersSent || res.destroyed
    sendError(answerError, req, res, error)
    if (isStarted) res.destroy()
  }
}

/** Logs an error and sends its answer, unless another answer has been started. */
export function sendError(answerError: AnswerError, req: Request, res: Response, error: unknown): void {
  const answer = answerError(new ExpressRequest(req), error)
  if (!res.headersSent && !res.destroyed) sendAnswer(res, answer)
}
