// The part of `cookie-parser` that is used here. Its own types would be another package for each build.
declare module 'cookie-parser' {
  import type { RequestHandler } from 'express'
  export default function cookieParser(secret?: string): RequestHandler
}
