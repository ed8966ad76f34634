import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';
import type { Message } from './model/message';
import { NAMESPACE } from './namespace';

/** t translates an English sentence, m a message of the model. */
export function useT(): { t: (key: string, values?: Message['values']) => string; m: (message: Message) => string; locale: string } {
  const { t: translate, i18n } = useTranslation(NAMESPACE);
  const t = useCallback((key: string, values?: Message['values']) => String(translate(key, values ?? {})), [translate]);
  const m = useCallback((message: Message) => t(message.key, message.values), [t]);
  return { t, m, locale: localeOf(i18n.language, i18n.resolvedLanguage) };
}

/** Numbers and times are written as in the user's region, but in the language that the texts are in: English, if the console lacks the user's. */
export const localeOf = (language: string, resolved = language): string => (language.split('-')[0] === resolved ? language : resolved);
